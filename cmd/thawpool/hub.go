package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/thawpool/thawpool/actors"
	"github.com/thawpool/thawpool/actors/catalog"
	"github.com/thawpool/thawpool/actors/catalog/config"
	"github.com/thawpool/thawpool/actors/catalog/registry"
	"github.com/thawpool/thawpool/actors/policy"
	"github.com/thawpool/thawpool/actors/store"
)

// Names in the state directory.
const (
	catalogDir = "catalog"            // tool lists of servers
	keptDir    = "kept"               // memories and saved tools
	addedFile  = "added-servers.json" // servers that code added for good
)

// serverSources says where servers are defined.
func (a *app) serverSources() (config.Sources, error) {
	s, err := config.DefaultSources()
	if err != nil {
		return s, err
	}
	for _, file := range a.cfg.Servers.Files {
		path, err := filepath.Abs(config.Tilde(file, s.Home))
		if err != nil {
			return s, err
		}
		s.Files = append(s.Files, path)
	}
	s.Added = filepath.Join(a.cfg.StateDir, addedFile)
	s.Discover = a.cfg.Servers.Discover
	return s, nil
}

// openHub makes the bridge between sandboxed code and the servers. onChange is called with what it can see of them.
func (a *app) openHub(onChange func(*catalog.Snapshot)) (*actors.Hub, error) {
	c, err := a.hubConfig(onChange)
	if err != nil {
		return nil, err
	}
	return actors.NewHub(c)
}

func (a *app) hubConfig(onChange func(*catalog.Snapshot)) (actors.HubConfig, error) {
	c := a.cfg.Servers
	sources, err := a.serverSources()
	if err != nil {
		return actors.HubConfig{}, err
	}
	rules, err := policy.New(c.Policy)
	if err != nil {
		return actors.HubConfig{}, err
	}
	kept, err := store.Open(filepath.Join(a.cfg.StateDir, keptDir), store.DefaultLimits(), a.log)
	if err != nil {
		return actors.HubConfig{}, err
	}
	finder, err := a.finder(sources)
	if err != nil {
		return actors.HubConfig{}, err
	}
	return actors.HubConfig{
		Sources: sources, CacheDir: filepath.Join(a.cfg.StateDir, catalogDir),
		Policy: rules, Store: kept, OnChange: onChange, Finder: finder, Observer: a.inside.observer(),
		Instances: c.Instances, Idle: c.Idle, StartTimeout: c.StartTimeout, CallTimeout: c.CallTimeout,
		Version: versionText(), Log: a.log,
	}, nil
}

// finder looks for servers that could be added. Without leave to add any there is none: what code searches for would
// leave the machine for nothing.
func (a *app) finder(sources config.Sources) (*registry.Finder, error) {
	c := a.cfg.Servers
	if len(c.Policy.AllowAdd) == 0 && !c.Manage {
		return nil, nil
	}
	f := &registry.Finder{Catalog: c.AddCatalog, Sources: sources}
	if c.Registry == "" {
		return f, nil
	}
	var err error
	f.Registry, err = registry.NewClient(c.Registry)
	return f, err
}

// openCatalog loads the servers for a command that shows them.
func (a *app) openCatalog(context.Context) (*catalog.Catalog, func() error, error) {
	if err := a.drop(); err != nil {
		return nil, nil, err
	}
	sources, err := a.serverSources()
	if err != nil {
		return nil, nil, err
	}
	c, err := catalog.New(catalog.Options{CacheDir: filepath.Join(a.cfg.StateDir, catalogDir), Log: a.log})
	if err != nil {
		return nil, nil, err
	}
	found := config.Load(sources)
	c.SetServers(found.Servers, found.Problems)
	return c, c.Close, nil
}

// checkServer connects to a server for a command that tries it.
func (a *app) checkServer(ctx context.Context, def config.Server) (catalog.Listing, error) {
	return actors.ReadTools(ctx, def, versionText(), a.log)
}

// rootsDefinitions are the files of server definitions that root's command would read, in the order in which they count:
// the service account's home has no ~/MCPs.
func (a *app) rootsDefinitions() ([]string, error) {
	s, err := a.serverSources()
	if err != nil {
		return nil, err
	}
	files := s.Files
	if s.EnvFile != "" {
		path, err := filepath.Abs(config.Tilde(s.EnvFile, s.Home))
		if err != nil {
			return nil, err
		}
		files = append(files, path)
	}
	for _, dir := range s.Dirs {
		in, err := config.FilesIn(dir)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return nil, fmt.Errorf("look for server definitions: %w", err)
		}
		files = append(files, in...)
	}
	return files, os.Unsetenv(config.EnvConfig) // its file is among them
}
