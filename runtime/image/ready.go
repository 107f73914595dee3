package image

import "github.com/opencontainers/go-digest"

// Default names the default image, as the empty string does.
const Default = "default"

// Ready is an image that sandboxes can be booted from: unpacked, with the guest in it. A read-only view of the snapshot
// ChainID is a whole root filesystem.
type Ready struct {
	Ref         string        // what was asked for, in full: Default, or for example "docker.io/library/python:3.13"
	Digest      digest.Digest // of the derived manifest: equal digests are equal root filesystems
	ChainID     string        // name of the committed snapshot, the parent for views
	Snapshotter string        // that has it
	Env         []string      // the image's own environment, KEY=value
	Python      string        // absolute path of the interpreter inside
}
