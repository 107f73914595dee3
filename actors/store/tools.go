package store

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"time"
)

// Tool is a piece of Python that later runs can import.
type Tool struct {
	Name        string    `json:"name"` // a Python identifier
	Description string    `json:"description"`
	Code        string    `json:"code,omitempty"`
	Created     time.Time `json:"created,omitzero"`
	Updated     time.Time `json:"updated,omitzero"`
}

// toolName is what may be a module's name in Python, in ASCII. Whether it is a keyword shows itself at import; those can
// be loaded by importlib all the same.
var toolName = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]{0,63}$`)

// keywords are refused because no import statement can name them (keyword.kwlist of CPython 3.14).
var keywords = strings.Fields(`False None True and as assert async await break class continue def del elif else except
	finally for from global if import in is lambda nonlocal not or pass raise return try while with yield`)

func checkTool(name string) error {
	if !toolName.MatchString(name) || slices.Contains(keywords, name) {
		return fmt.Errorf("tool name %s: %w: it must be a Python identifier of at most 64 ASCII letters, digits and underscores, and no keyword",
			show(name), ErrInvalid)
	}
	return nil
}

// SaveTool keeps a tool, replacing one of that name. The code is not looked at.
func (s *Store) SaveTool(ctx context.Context, t Tool) error {
	if err := checkTool(t.Name); err != nil {
		return err
	}
	switch {
	case strings.TrimSpace(t.Code) == "":
		return fmt.Errorf("tool %s: %w: its code is empty", t.Name, ErrInvalid)
	case len(t.Code) > s.limits.Code:
		return fmt.Errorf("tool %s: %w: its code has %d bytes, at most %d are allowed", t.Name, ErrQuota, len(t.Code), s.limits.Code)
	case len(t.Description) > s.limits.Description:
		return fmt.Errorf("tool %s: %w: its description has %d bytes, at most %d are allowed", t.Name, ErrQuota, len(t.Description), s.limits.Description)
	}
	name := t.Name + suffix
	return s.tools.locked(ctx, func() error {
		t.Updated = time.Now().UTC()
		t.Created = t.Updated
		var before Tool
		switch err := s.tools.get(name, s.toolLimit(), &before); {
		case err == nil:
			t.Created = before.Created
		case errors.Is(err, ErrNotFound):
			files, err := s.tools.list()
			if err != nil {
				return err
			}
			if len(files) >= s.limits.Tools {
				return fmt.Errorf("tool %s: %w: there are %d saved tools already; delete some first", t.Name, ErrQuota, len(files))
			}
		case !errors.Is(err, ErrDamaged): // a damaged one is what this save mends
			return err
		}
		return s.tools.put(name, t)
	})
}

// toolLimit bounds a tool's file: JSON may write a byte in six.
func (s *Store) toolLimit() int64 { return int64(6*(s.limits.Code+s.limits.Description) + 1024) }

// LoadTool returns a saved tool, ErrNotFound when there is none, ErrDamaged when it could not be read.
func (s *Store) LoadTool(ctx context.Context, name string) (Tool, error) {
	if err := checkTool(name); err != nil {
		return Tool{}, err
	}
	t, err := s.readTool(name)
	if errors.Is(err, ErrDamaged) {
		err = s.tools.locked(ctx, func() error { // look again: it may be about to be replaced
			if t, err = s.readTool(name); errors.Is(err, ErrDamaged) {
				err = s.tools.setAside(name+suffix, err)
			}
			return err
		})
	}
	if err != nil {
		return Tool{}, fmt.Errorf("saved tool %s: %w", name, err)
	}
	return t, nil
}

func (s *Store) readTool(name string) (Tool, error) {
	var t Tool
	err := s.tools.get(name+suffix, s.toolLimit(), &t)
	if err == nil && t.Name != name {
		err = fmt.Errorf("%w: it holds another tool", ErrDamaged)
	}
	return t, err
}

// DeleteTool removes a saved tool and tells whether it was there.
func (s *Store) DeleteTool(ctx context.Context, name string) (bool, error) {
	if err := checkTool(name); err != nil {
		return false, err
	}
	var there bool
	err := s.tools.locked(ctx, func() (err error) {
		there, err = s.tools.remove(name + suffix)
		return err
	})
	return there, err
}

// Tools lists the saved tools by name, without their code. Damaged ones are left out here and told by LoadTool.
func (s *Store) Tools(ctx context.Context) ([]Tool, error) {
	files, err := s.tools.list()
	if err != nil {
		return nil, err
	}
	list := make([]Tool, 0, len(files))
	for _, file := range slices.Sorted(maps.Keys(files)) {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		t, err := s.readTool(strings.TrimSuffix(file, suffix))
		if err != nil {
			continue
		}
		t.Code = ""
		list = append(list, t)
	}
	return list, nil
}

// ToolNames lists the names of saved tools, sorted, without reading them: what a run frame carries.
func (s *Store) ToolNames() ([]string, error) {
	files, err := s.tools.list()
	if err != nil {
		return nil, err
	}
	names := make([]string, 0, len(files))
	for file := range files {
		if name := strings.TrimSuffix(file, suffix); checkTool(name) == nil {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names, nil
}
