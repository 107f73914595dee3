package prepare

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
)

// recordFile remembers what was made, for Undo. It is root's own.
const recordFile = "/var/lib/thawpool-setup.json"

// record is what Run has changed on this machine and Undo takes back.
type record struct {
	Users    map[string]*userRecord `json:"users"`
	Drop     bool                   `json:"systemdDropIn,omitempty"` // delegation drop-in for all user managers
	AppArmor bool                   `json:"appArmorProfile,omitempty"`
}

// userRecord is what was made for one account.
type userRecord struct {
	Created bool   `json:"created,omitempty"` // the account itself
	SubUIDs string `json:"subUIDs,omitempty"` // FIRST-LAST, as usermod writes ranges
	SubGIDs string `json:"subGIDs,omitempty"`
	Linger  bool   `json:"linger,omitempty"`
	Groups  bool   `json:"groups,omitempty"` // v1 directories; also taken away when a reboot has made them anew
}

// names are the accounts to undo: the recorded ones, and the service account also when the record was lost.
func (p *Preparer) names() []string {
	names := slices.Sorted(maps.Keys(p.rec.Users))
	if !slices.Contains(names, p.service.name) {
		names = append(names, p.service.name)
	}
	return names
}

// user is the record of one account, made when it is new.
func (p *Preparer) user(name string) *userRecord {
	if p.rec.Users == nil {
		p.rec.Users = map[string]*userRecord{}
	}
	if p.rec.Users[name] == nil {
		p.rec.Users[name] = &userRecord{}
	}
	return p.rec.Users[name]
}

func (p *Preparer) loadRecord() (record, error) {
	var r record
	data, err := os.ReadFile(p.path(recordFile))
	if errors.Is(err, fs.ErrNotExist) {
		return r, nil
	}
	if err == nil {
		err = json.Unmarshal(data, &r)
	}
	if err != nil {
		return r, fmt.Errorf("record of earlier setups: %w (remove %s when it is damaged)", err, recordFile)
	}
	return r, nil
}

// save writes the record. It is called after each change, so that a setup that stops half-way can be undone.
func (p *Preparer) save() error {
	data, err := json.MarshalIndent(p.rec, "", "  ")
	if err != nil {
		return err
	}
	if err := p.replaceFile(recordFile, append(data, '\n'), 0o600); err != nil {
		return fmt.Errorf("record what was made: %w", err)
	}
	return nil
}

// replaceFile writes a whole file so that a reader or a crash sees either the old or the new one. An existing file
// keeps its mode and owner.
func (p *Preparer) replaceFile(name string, data []byte, mode fs.FileMode) error {
	path := p.path(name)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	if info, err := os.Stat(path); err == nil {
		mode = info.Mode().Perm()
	}
	f, err := os.CreateTemp(filepath.Dir(path), filepath.Base(path)+".")
	if err != nil {
		return err
	}
	defer os.Remove(f.Name()) // gone already after the rename
	_, err = f.Write(data)
	err = errors.Join(err, f.Chmod(mode), f.Sync(), f.Close())
	if err != nil {
		return err
	}
	return os.Rename(f.Name(), path)
}
