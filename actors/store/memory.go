package store

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"strings"
	"time"
	"unicode/utf8"
)

// Info is what is known of one key.
type Info struct {
	Key      string          `json:"key"`
	Version  int64           `json:"version"` // changes with every save, and is never used again for the key
	Size     int             `json:"size"`    // bytes of the value as compact JSON
	Created  time.Time       `json:"created"`
	Updated  time.Time       `json:"updated"`
	Metadata json.RawMessage `json:"metadata,omitempty"`
}

// Memory is a key with its value. Its JSON is the file's content and the answer to guest.VerbMemoryLoad.
type Memory struct {
	Info
	Value json.RawMessage `json:"value"` // as saved, compact: integers keep every digit
}

// SaveOptions say how Save treats what is there.
type SaveOptions struct {
	Metadata json.RawMessage // an object; nil keeps what the key has
	// Version is the version that the new value was made from, zero for a key that must not be there. Another version
	// fails with ErrConflict. nil saves whatever is there.
	Version *int64
}

// fileName is a key's file: something to recognise it by, and a hash that tells all keys apart. It is safe whatever the
// key is.
func fileName(key string) string {
	const recognise = 40
	slug := strings.Map(func(r rune) rune {
		switch {
		case r >= 'a' && r <= 'z', r >= '0' && r <= '9', r == '-':
			return r
		case r >= 'A' && r <= 'Z':
			return r + 'a' - 'A'
		}
		return '_'
	}, key[:min(len(key), recognise)])
	sum := sha256.Sum256([]byte(key))
	return "m-" + slug + "-" + hex.EncodeToString(sum[:16]) + suffix
}

// Save keeps value under key and returns what is then known of it.
func (s *Store) Save(ctx context.Context, key string, value json.RawMessage, o SaveOptions) (Info, error) {
	m, err := s.checked(key, value, o)
	if err != nil {
		return Info{}, err
	}
	name := fileName(key)
	err = s.memories.locked(ctx, func() error {
		before, err := s.current(name, key)
		if err != nil {
			return err
		}
		if o.Version != nil && *o.Version != before.Version {
			return fmt.Errorf("memory %s: %w: it has version %d, not %d", show(key), ErrConflict, before.Version, *o.Version)
		}
		m.follow(before)
		if err := s.fits(name, m); err != nil {
			return err
		}
		return s.memories.put(name, m)
	})
	if err != nil {
		return Info{}, err
	}
	return m.Info, nil
}

// checked makes a Memory of what the caller gave.
func (s *Store) checked(key string, value json.RawMessage, o SaveOptions) (*Memory, error) {
	if err := s.checkKey(key); err != nil {
		return nil, err
	}
	value, err := compact(value, s.limits.Value, "value of memory "+show(key))
	if err != nil {
		return nil, err
	}
	m := &Memory{Info: Info{Key: key, Size: len(value)}, Value: value}
	if len(o.Metadata) > 0 && !bytes.Equal(bytes.TrimSpace(o.Metadata), []byte("null")) {
		if m.Metadata, err = compact(o.Metadata, s.limits.Metadata, "metadata of memory "+show(key)); err != nil {
			return nil, err
		}
		if m.Metadata[0] != '{' {
			return nil, fmt.Errorf("metadata of memory %s: %w: it must be an object", show(key), ErrInvalid)
		}
	}
	return m, nil
}

func (s *Store) checkKey(key string) error {
	switch {
	case len(key) > s.limits.Key:
		return fmt.Errorf("memory key: %w: it has %d bytes, at most %d are allowed", ErrInvalid, len(key), s.limits.Key)
	case !utf8.ValidString(key):
		return fmt.Errorf("memory key: %w: it is not UTF-8", ErrInvalid)
	}
	return nil
}

func compact(raw json.RawMessage, limit int, what string) (json.RawMessage, error) {
	var b bytes.Buffer
	if err := json.Compact(&b, raw); err != nil {
		return nil, fmt.Errorf("%s: %w: it is not JSON", what, ErrInvalid)
	}
	if b.Len() > limit {
		return nil, fmt.Errorf("%s: %w: it has %d bytes as JSON, at most %d are allowed", what, ErrQuota, b.Len(), limit)
	}
	return b.Bytes(), nil
}

// read reads the file of a key. ErrDamaged is its error when the file is not what Save writes.
func (s *Store) read(name, key string) (Memory, error) {
	var m Memory
	err := s.memories.get(name, s.fileLimit(), &m)
	switch {
	case err != nil:
	case m.Key != key:
		err = fmt.Errorf("%w: it holds another key", ErrDamaged)
	case m.Version < 1 || m.Version == math.MaxInt64: // no version could follow
		err = fmt.Errorf("%w: its version is %d", ErrDamaged, m.Version)
	case len(m.Value) == 0 || len(m.Metadata) > 0 && m.Metadata[0] != '{':
		err = fmt.Errorf("%w: its value or metadata is missing", ErrDamaged)
	}
	return m, err
}

// current reads what a save is to replace; its zero value when there is nothing. A damaged file is set aside, so that
// the key can be used again.
func (s *Store) current(name, key string) (Memory, error) {
	m, err := s.read(name, key)
	switch {
	case errors.Is(err, ErrNotFound):
		return Memory{}, nil
	case errors.Is(err, ErrDamaged):
		return Memory{}, s.lost(name, key, err)
	}
	return m, err
}

// lost sets a damaged memory aside and says so.
func (s *Store) lost(name, key string, cause error) error {
	return fmt.Errorf("memory %s: %w", show(key), s.memories.setAside(name, cause))
}

// fileLimit bounds a memory's file: value, metadata and key as JSON, and the rest.
func (s *Store) fileLimit() int64 {
	return int64(s.limits.Value + s.limits.Metadata + 6*s.limits.Key + 1024)
}

// follow makes m the successor of before. Versions start at the clock, so that a key which was deleted and made again
// does not get one that somebody may still hold.
func (m *Memory) follow(before Memory) {
	now := time.Now().UTC()
	m.Created, m.Updated = now, now
	m.Version = max(now.UnixMicro(), before.Version+1)
	if before.Version != 0 {
		m.Created = before.Created
		if m.Metadata == nil {
			m.Metadata = before.Metadata
		}
	}
}

// fits checks the limits of the whole. The caller holds the lock.
func (s *Store) fits(name string, m *Memory) error {
	files, err := s.memories.list()
	if err != nil {
		return err
	}
	if _, there := files[name]; !there && len(files) >= s.limits.Keys {
		return fmt.Errorf("memory %s: %w: there are %d keys already; delete some first", show(m.Key), ErrQuota, len(files))
	}
	delete(files, name)
	total := int64(m.Size + len(m.Metadata) + len(m.Key))
	for _, size := range files {
		total += size
	}
	if total > s.limits.Total {
		return fmt.Errorf("memory %s: %w: all memories together would have %d bytes, at most %d are allowed; delete some first",
			show(m.Key), ErrQuota, total, s.limits.Total)
	}
	return nil
}

// Load returns what is kept under key, ErrNotFound when there is nothing, ErrDamaged when it could not be read.
func (s *Store) Load(ctx context.Context, key string) (Memory, error) {
	if err := s.checkKey(key); err != nil {
		return Memory{}, err
	}
	name := fileName(key)
	m, err := s.read(name, key)
	if errors.Is(err, ErrDamaged) {
		err = s.memories.locked(ctx, func() error { // look again: it may be about to be replaced
			m, err = s.current(name, key)
			if err == nil && m.Version == 0 {
				err = ErrNotFound
			}
			return err
		})
	}
	if errors.Is(err, ErrNotFound) {
		return Memory{}, fmt.Errorf("memory %s: %w", show(key), ErrNotFound)
	}
	return m, err
}

// Delete removes key and tells whether it was there.
func (s *Store) Delete(ctx context.Context, key string) (bool, error) {
	if err := s.checkKey(key); err != nil {
		return false, err
	}
	var there bool
	err := s.memories.locked(ctx, func() (err error) {
		there, err = s.memories.remove(fileName(key))
		return err
	})
	return there, err
}

// Info is Load without the value.
func (s *Store) Info(ctx context.Context, key string) (Info, error) {
	m, err := s.Load(ctx, key)
	return m.Info, err
}

// show writes a key for a message.
func show(key string) string { return fmt.Sprintf("%+q", key[:min(len(key), 80)]) }
