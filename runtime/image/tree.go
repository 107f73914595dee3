package image

import (
	"archive/tar"
	"errors"
	"fmt"
	"io"
	"path"
	"strings"
)

// Bounds on an image that is looked into before it is unpacked. They only keep a broken or hostile archive from using
// the host up; real images stay far below.
const (
	maxEntries  = 4 << 20   // files, directories and links over all layers
	maxUnpacked = 64 << 30  // bytes, all layers uncompressed
	maxNames    = 512 << 20 // bytes of all paths and link targets together
	maxPath     = 4096      // bytes of one path, PATH_MAX
	maxLinks    = 40        // symlinks on one path, as the kernel allows
)

// errTooBig says that an image passes one of those bounds.
var errTooBig = errors.New("image is too big")

// A tree is the outline of a root filesystem as its layers' archives describe it: which names are directories, symlinks
// and executables. No file is ever made from it.
type tree struct {
	root    node
	entries int   // over all layers
	names   int   // bytes, over all layers
	bytes   int64 // over all layers
}

// A node is one name. Only directories have children, only symlinks a link.
type node struct {
	children   map[string]*node
	link       string
	executable bool
	layer      int // the last layer that named it, for opaque directories
}

const (
	whiteout       = ".wh."         // OCI image spec, layer.md: this name marks the rest of it as removed
	whiteoutOpaque = ".wh..wh..opq" // this one, everything that lower layers had in the directory
)

// addLayer applies one layer's archive, uncompressed, on top of those before it.
func (t *tree) addLayer(r io.Reader, layer int) error {
	bounded := &boundedReader{r: r, left: maxUnpacked - t.bytes, used: &t.bytes}
	tr := tar.NewReader(bounded)
	for {
		hdr, err := tr.Next()
		if errors.Is(err, io.EOF) {
			// What follows the end mark is hashed by whoever checks the layer: it counts as read.
			_, err = io.Copy(io.Discard, bounded)
			return err
		}
		if err != nil {
			return err
		}
		if err := t.count(hdr); err != nil {
			return err
		}
		t.add(hdr, layer)
	}
}

// count keeps the bounds on names.
func (t *tree) count(hdr *tar.Header) error {
	t.entries++
	t.names += len(hdr.Name) + len(hdr.Linkname)
	switch {
	case len(hdr.Name) > maxPath || len(hdr.Linkname) > maxPath:
		return fmt.Errorf("%w: a path of more than %d bytes", errTooBig, maxPath)
	case t.entries > maxEntries:
		return fmt.Errorf("%w: more than %d files", errTooBig, maxEntries)
	case t.names > maxNames:
		return fmt.Errorf("%w: more than %d MiB of file names", errTooBig, maxNames>>20)
	}
	return nil
}

// add applies one archive entry.
func (t *tree) add(hdr *tar.Header, layer int) {
	dir, base := path.Split(strings.TrimPrefix(path.Clean("/"+hdr.Name), "/"))
	if base == "" {
		return
	}
	parent := t.makeDir(dir, layer)
	switch {
	case base == whiteoutOpaque:
		for name, child := range parent.children {
			if child.layer < layer {
				delete(parent.children, name)
			}
		}
		return
	case strings.HasPrefix(base, whiteout):
		delete(parent.children, strings.TrimPrefix(base, whiteout))
		return
	}
	child := parent.children[base]
	if hdr.Typeflag == tar.TypeDir && child != nil && child.children != nil {
		child.layer = layer
		return
	}
	parent.children[base] = t.newNode(hdr, layer)
}

func (t *tree) newNode(hdr *tar.Header, layer int) *node {
	n := &node{layer: layer}
	switch hdr.Typeflag {
	case tar.TypeDir:
		n.children = map[string]*node{}
	case tar.TypeSymlink:
		n.link = hdr.Linkname
	case tar.TypeReg:
		n.executable = hdr.Mode&0o111 != 0
	case tar.TypeLink:
		// A hard link is another name of a file that stands before it.
		target, _ := t.lookup(hdr.Linkname)
		n.executable = target != nil && target.executable
	}
	return n
}

// makeDir returns the directory at a path below the root, following symlinks as unpacking does, and making what is
// missing. What cannot be a directory is replaced.
func (t *tree) makeDir(dir string, layer int) *node {
	if real, err := t.resolve(dir); err == nil {
		dir = real
	}
	at := &t.root
	for name := range strings.SplitSeq(strings.Trim(dir, "/"), "/") {
		if at.children == nil {
			at.children = map[string]*node{}
		}
		if name == "" {
			continue
		}
		next := at.children[name]
		if next == nil || next.children == nil {
			next = &node{children: map[string]*node{}, layer: layer}
			at.children[name] = next
		}
		at = next
	}
	return at
}

// lookup returns the node that a path leads to, every symlink followed, and its real path. It returns nil when nothing
// is there.
func (t *tree) lookup(name string) (*node, string) {
	real, err := t.resolve(name)
	if err != nil {
		return nil, ""
	}
	at := &t.root
	for part := range strings.SplitSeq(strings.Trim(real, "/"), "/") {
		if part == "" {
			continue
		}
		if at = at.children[part]; at == nil {
			return nil, ""
		}
	}
	return at, real
}

// resolve follows the symlinks on a path, the last one too. Names that do not exist stay as they are.
func (t *tree) resolve(name string) (string, error) {
	todo := strings.Split(strings.Trim(name, "/"), "/")
	var done []string
	for links := 0; len(todo) > 0; {
		part := todo[0]
		todo = todo[1:]
		switch part {
		case "", ".":
			continue
		case "..":
			done = done[:max(0, len(done)-1)]
			continue
		}
		done = append(done, part)
		link := t.linkAt(done)
		if link == "" {
			continue
		}
		if links++; links > maxLinks {
			return "", errors.New("too many symlinks")
		}
		done = done[:len(done)-1]
		if strings.HasPrefix(link, "/") {
			done = nil
		}
		todo = append(strings.Split(link, "/"), todo...)
	}
	return "/" + strings.Join(done, "/"), nil
}

// linkAt returns the target of the symlink at a path with no symlink before its end, or "".
func (t *tree) linkAt(parts []string) string {
	at := &t.root
	for _, part := range parts {
		if at = at.children[part]; at == nil {
			return ""
		}
	}
	return at.link
}

// A boundedReader fails once more than left bytes were read, and counts them.
type boundedReader struct {
	r    io.Reader
	left int64
	used *int64
}

func (b *boundedReader) Read(p []byte) (int, error) {
	n, err := b.r.Read(p)
	*b.used += int64(n)
	if b.left -= int64(n); b.left < 0 {
		return n, fmt.Errorf("%w: more than %d GiB unpacked", errTooBig, maxUnpacked>>30)
	}
	return n, err
}
