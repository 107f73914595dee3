package config

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/gofrs/flock"
)

// literalKey marks an entry of the added file in which nothing is a variable: what came from a registry must not be able
// to ask for the user's environment.
const literalKey = "literal"

// Save keeps s in path, a file of thawpool's own that Sources.Added names, mode 0600. An entry of that name is replaced.
// What came from a config file is kept as it stood there, variables and all; no file of the user is ever written.
func Save(ctx context.Context, path string, s Server) error {
	if err := CheckServerName(s.Name); err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return fmt.Errorf("save server %q: %w", s.Name, err)
	}
	lock := flock.New(path+".lock", flock.SetPermissions(0o600))
	if _, err := lock.TryLockContext(ctx, 2*time.Millisecond); err != nil {
		return fmt.Errorf("save server %q: lock: %w", s.Name, err)
	}
	err := save(path, s)
	return errors.Join(err, lock.Close())
}

func save(path string, s Server) error {
	all, servers := map[string]any{}, map[string]any{}
	if err := keep(path, all, servers); err != nil {
		return fmt.Errorf("save server %q: %s: %w; mend or remove the file", s.Name, path, err)
	}
	all["comment"], all["mcpServers"] = "servers added by thawpool", servers
	servers[s.Name] = s.definition()
	raw, err := json.MarshalIndent(all, "", "  ")
	if err != nil {
		return fmt.Errorf("save server %q: %w", s.Name, err)
	}
	if err := Replace(path, append(raw, '\n')); err != nil {
		return fmt.Errorf("save server %q: %w", s.Name, err)
	}
	return nil
}

// keep reads what is in the file, its servers apart, to be written back as it is.
func keep(path string, all, servers map[string]any) error {
	raw, err := read(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	var whole, inner map[string]json.RawMessage
	if err == nil {
		err = json.Unmarshal(raw, &whole)
	}
	if err == nil && whole["mcpServers"] != nil {
		err = json.Unmarshal(whole["mcpServers"], &inner)
	}
	for name, v := range whole {
		all[name] = v
	}
	for name, v := range inner {
		servers[name] = v
	}
	return err
}

// definition is an entry that reads back as s.
func (s Server) definition() map[string]any {
	if s.fields != nil {
		return s.portable()
	}
	d := map[string]any{literalKey: true, "type": string(s.Transport), "description": s.Description}
	if s.Transport == Stdio {
		d["command"], d["args"], d["env"] = s.Command, s.Args, s.Env
		if s.Dir != "" {
			d["cwd"] = s.Dir
		}
	} else {
		d["url"], d["headers"] = s.URL, s.Headers
	}
	if s.StartTimeout > 0 {
		d["startTimeout"] = s.StartTimeout.String()
	}
	if s.CallTimeout > 0 {
		d["callTimeout"] = s.CallTimeout.String()
	}
	return d
}

// portable is the entry as it stood in its file, turned on, with what was relative to that file made absolute.
func (s Server) portable() map[string]any {
	d := maps.Clone(s.fields)
	delete(d, "disabled")
	delete(d, "enabled")
	relative := func(v any) bool {
		path, ok := v.(string)
		return ok && !filepath.IsAbs(path) && !strings.HasPrefix(path, "${") && !strings.HasPrefix(path, "~")
	}
	if c, ok := d["command"].(string); ok && strings.Contains(c, "/") && relative(c) {
		d["command"] = s.Command
	}
	for _, name := range dirKeys {
		if relative(d[name]) {
			d[name] = s.Dir
		}
	}
	return d
}
