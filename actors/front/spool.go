package front

import (
	"errors"
	"fmt"
	"io"
	"os"
	"sync"
	"time"

	"github.com/thawpool/thawpool/actors"
)

const (
	// spoolMemory is how much of a stream is kept in memory before a file is made: most calls never need one.
	spoolMemory = 64 << 10
	// streamMax is the most that is kept of one stream, bytes: what one resource message can carry comfortably.
	streamMax = 16 << 20
	// keptMax bounds the calls whose output is kept, each of which may hold two open files.
	keptMax = 128
)

// Spool keeps the whole output of recent calls whose answer had to be cut. What is long lies in files without a name,
// which go with the process however it ends. It is safe for concurrent use.
type Spool struct {
	dir  string
	most int64 // bytes, of all streams together
	keep time.Duration
	now  func() time.Time

	mu   sync.Mutex
	used int64
	kept []*Recorder // oldest first
}

// NewSpool makes a spool with its files in dir, which keeps at most most bytes, each call's for keep.
func NewSpool(dir string, most int64, keep time.Duration) (*Spool, error) {
	if most <= 0 || keep <= 0 {
		return nil, fmt.Errorf("spool: size %d and time %v must be positive", most, keep)
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("spool: %w", err)
	}
	return &Spool{dir: dir, most: most, keep: keep, now: time.Now}, nil
}

// Record starts to keep the output of the call with that id. The caller must Keep or Drop it.
func (s *Spool) Record(id string) *Recorder { return &Recorder{spool: s, id: id} }

// Kept tells how many bytes of a call's stream (stdout or stderr) can be read, and whether they are all it wrote.
func (s *Spool) Kept(id, stream string) (n int64, whole bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	st := s.find(id, stream)
	if st == nil {
		return 0, false
	}
	return st.size, !st.cut
}

// Read gives what is kept of a call's stream, without a character that was cut in two.
func (s *Spool) Read(id, stream string) (data []byte, ok bool, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.expire()
	st := s.find(id, stream)
	if st == nil {
		return nil, false, nil
	}
	data = make([]byte, st.size)
	n := copy(data, st.head)
	if st.file != nil {
		if _, err := st.file.ReadAt(data[n:], 0); err != nil && !errors.Is(err, io.EOF) {
			return nil, false, fmt.Errorf("read kept output: %w", err)
		}
	}
	if st.cut {
		data = data[:actors.WholeEnd(data)]
	}
	return data, true, nil
}

// Close drops everything.
func (s *Spool) Close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for len(s.kept) > 0 {
		s.evict()
	}
}

func (s *Spool) find(id, stream string) *stream {
	for _, r := range s.kept {
		if r.id == id {
			switch stream {
			case "stdout":
				return &r.streams[0]
			case "stderr":
				return &r.streams[1]
			}
		}
	}
	return nil
}

func (s *Spool) expire() {
	for len(s.kept) > 0 && s.now().Sub(s.kept[0].at) > s.keep {
		s.evict()
	}
}

func (s *Spool) evict() {
	r := s.kept[0]
	s.kept[0] = nil
	s.kept = s.kept[1:]
	r.free()
}

// reserve takes room for n bytes from what is oldest, if need be.
func (s *Spool) reserve(n int64) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.expire()
	for s.used+n > s.most && len(s.kept) > 0 {
		s.evict()
	}
	if s.used+n > s.most {
		return false
	}
	s.used += n
	return true
}

// Recorder takes in the output of one call. It belongs to that call's goroutine.
type Recorder struct {
	spool   *Spool
	id      string
	at      time.Time
	ended   bool
	streams [2]stream // stdout, stderr
}

// stream is the beginning of what was written to one descriptor: head, then file.
type stream struct {
	head []byte
	file *os.File
	size int64
	cut  bool
}

// Write takes in what the code wrote to fd 1 or 2. What cannot be kept is counted as cut.
func (r *Recorder) Write(fd int, p []byte) {
	if fd < 1 || fd > 2 || r.ended || len(p) == 0 {
		return
	}
	st := &r.streams[fd-1]
	if st.cut {
		return
	}
	if room := streamMax - st.size; int64(len(p)) > room {
		p, st.cut = p[:room], true
	}
	if !r.spool.reserve(int64(len(p))) {
		st.cut = true
		return
	}
	n, err := st.append(r.spool.dir, p)
	st.size += int64(n)
	if err != nil {
		st.cut = true
		r.spool.unreserve(int64(len(p) - n))
	}
}

func (st *stream) append(dir string, p []byte) (int, error) {
	n := min(spoolMemory-len(st.head), len(p))
	st.head = append(st.head, p[:n]...)
	if n == len(p) {
		return n, nil
	}
	if st.file == nil {
		f, err := os.CreateTemp(dir, "output-*")
		if err != nil {
			return n, err
		}
		_ = os.Remove(f.Name()) // the open file is all that is needed; without a name it cannot be left behind
		st.file = f
	}
	m, err := st.file.Write(p[n:])
	return n + m, err
}

func (s *Spool) unreserve(n int64) {
	s.mu.Lock()
	s.used -= n
	s.mu.Unlock()
}

// Keep makes what was recorded readable for a while.
func (r *Recorder) Keep() {
	if r.ended {
		return
	}
	r.ended = true
	r.spool.mu.Lock()
	defer r.spool.mu.Unlock()
	r.at = r.spool.now()
	r.spool.kept = append(r.spool.kept, r)
	for len(r.spool.kept) > keptMax {
		r.spool.evict()
	}
}

// Drop forgets what was recorded, unless it was kept.
func (r *Recorder) Drop() {
	if r.ended {
		return
	}
	r.ended = true
	r.spool.mu.Lock()
	defer r.spool.mu.Unlock()
	r.free()
}

// free gives the room back; the spool is locked.
func (r *Recorder) free() {
	for i := range r.streams {
		st := &r.streams[i]
		r.spool.used -= st.size
		if st.file != nil {
			_ = st.file.Close()
		}
		*st = stream{}
	}
}
