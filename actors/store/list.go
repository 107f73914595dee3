package store

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// List tells of all keys, by key. Damaged ones are set aside and left out.
func (s *Store) List(ctx context.Context) ([]Info, error) {
	files, err := s.memories.list()
	if err != nil {
		return nil, err
	}
	infos := make([]Info, 0, len(files))
	for _, name := range slices.Sorted(maps.Keys(files)) {
		info, err := s.head(name)
		if err == nil && fileName(info.Key) == name {
			infos = append(infos, info)
			continue
		}
		if errors.Is(err, ErrNotFound) {
			continue
		}
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		s.doubt(ctx, name)
	}
	slices.SortFunc(infos, func(a, b Info) int { return strings.Compare(a.Key, b.Key) })
	return infos, nil
}

// head reads a file up to its value, which put writes last.
func (s *Store) head(name string) (info Info, err error) {
	f, err := s.memories.open(name)
	if err != nil {
		return Info{}, err
	}
	defer f.Close()
	fields := map[string]any{
		"key": &info.Key, "version": &info.Version, "size": &info.Size,
		"created": &info.Created, "updated": &info.Updated, "metadata": &info.Metadata,
	}
	d := json.NewDecoder(f)
	if t, err := d.Token(); err != nil || t != json.Delim('{') {
		return Info{}, ErrDamaged
	}
	for d.More() {
		name, err := d.Token()
		if err != nil || name == "value" {
			return info, err
		}
		text, _ := name.(string)
		into, known := fields[text]
		if !known {
			return Info{}, ErrDamaged
		}
		if err := d.Decode(into); err != nil {
			return Info{}, fmt.Errorf("%w: %w", ErrDamaged, err)
		}
	}
	return Info{}, ErrDamaged
}

// doubt looks at a file again under the lock and sets it aside when it is damaged.
func (s *Store) doubt(ctx context.Context, name string) {
	err := s.memories.locked(ctx, func() error {
		var m Memory
		err := s.memories.get(name, s.fileLimit(), &m)
		if err == nil && fileName(m.Key) != name {
			err = fmt.Errorf("%w: it holds another key", ErrDamaged)
		}
		if errors.Is(err, ErrDamaged) {
			return s.memories.setAside(name, err)
		}
		return nil
	})
	if err != nil {
		s.memories.log.Debug().Err(err).Msg("listing memories")
	}
}
