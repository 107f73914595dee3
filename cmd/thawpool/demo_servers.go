package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// demoPackages are two servers of the protocol's own authors, from PyPI.
var demoPackages = []string{"mcp-server-time==2026.10.19", "mcp-server-git==2026.10.19"}

// demoPython is the distribution's: one in a home directory could not be reached by the service account.
const demoPython = "/usr/bin/python3"

// demoServers is a configuration with two real servers that lives until close.
type demoServers struct {
	config string // file for --servers-config
	repo   string // what the git server shows
	dir    string
}

// newDemoServers installs the servers, once, and writes the configuration.
func newDemoServers(ctx context.Context) (*demoServers, error) {
	venv, err := installDemoServers(ctx)
	if err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp("/var/tmp", "thawpool-demo-")
	if err != nil {
		return nil, err
	}
	s := &demoServers{dir: dir, repo: filepath.Join(dir, "project"), config: filepath.Join(dir, "servers.json")}
	if err := errors.Join(os.Chmod(dir, 0o755), s.makeRepo(ctx), s.writeConfig(venv)); err != nil {
		s.close()
		return nil, err
	}
	return s, nil
}

func (s *demoServers) close() { _ = os.RemoveAll(s.dir) }

// installDemoServers makes a virtual environment where the account that serves can reach it.
func installDemoServers(ctx context.Context) (string, error) {
	base := "/var/cache"
	if os.Geteuid() != 0 {
		var err error
		if base, err = os.UserCacheDir(); err != nil {
			return "", err
		}
	}
	venv := filepath.Join(base, "thawpool", "demo-servers")
	stamp, want := filepath.Join(venv, ".installed"), strings.Join(demoPackages, "\n")
	if have, err := os.ReadFile(stamp); err == nil && string(have) == want {
		return venv, nil
	}
	if _, err := exec.LookPath("git"); err != nil {
		return "", err
	}
	if err := os.MkdirAll(filepath.Dir(venv), 0o755); err != nil {
		return "", err
	}
	if err := command(ctx, demoPython, "-m", "venv", "--clear", venv); err != nil {
		return "", err
	}
	if err := command(ctx, filepath.Join(venv, "bin", "pip"), append([]string{"install", "--quiet"}, demoPackages...)...); err != nil {
		return "", err
	}
	return venv, os.WriteFile(stamp, []byte(want), 0o644)
}

// makeRepo gives the git server a history to tell.
func (s *demoServers) makeRepo(ctx context.Context) error {
	if err := command(ctx, "git", "init", "-q", "-b", "main", s.repo); err != nil {
		return err
	}
	for _, message := range []string{"Begin", "Freeze sandboxes before they are needed", "Thaw one for each call"} {
		if err := command(ctx, "git", "-C", s.repo, "-c", "user.name=demo", "-c", "user.email=demo@example.org",
			"commit", "-q", "--allow-empty", "-m", message); err != nil {
			return err
		}
	}
	return nil
}

func (s *demoServers) writeConfig(venv string) error {
	type entry map[string]any
	raw, err := json.MarshalIndent(map[string]any{"mcpServers": map[string]entry{
		"time": {"command": filepath.Join(venv, "bin", "mcp-server-time"), "description": "time zones"},
		"git": {"command": filepath.Join(venv, "bin", "mcp-server-git"), "args": []string{"--repository", s.repo},
			"description": "the demo's repository",
			// The repository may belong to root while the account reads it.
			"env": map[string]string{"GIT_CONFIG_COUNT": "1", "GIT_CONFIG_KEY_0": "safe.directory", "GIT_CONFIG_VALUE_0": "*"}},
	}}, "", "  ")
	if err != nil {
		return err
	}
	return os.WriteFile(s.config, raw, 0o644)
}

// step is the call: search, read documentation, call two servers side by side, remember.
func (s *demoServers) step() demoStep {
	return demoStep{"code mode: two real servers, none of their schemas in the model's context", map[string]any{"code": fmt.Sprintf(`import asyncio
from mcp import runtime
best = (await runtime.search_tool_docs("what time is it in a city", limit=1))[0]
print("found:", best["server"], best["tool"])
paris, tokyo, log = await asyncio.gather(
    mcp_time.get_current_time(timezone="Europe/Paris"),
    mcp_time.get_current_time(timezone="Asia/Tokyo"),
    mcp_git.git_log(repo_path=%q, max_count=2))
print(paris)
print(log)
save_memory("demo", {"seen": 2})
load_memory("demo")`, s.repo)}}
}

// command runs a program and makes its output the error.
func command(ctx context.Context, name string, args ...string) error {
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Env = append(os.Environ(), "GIT_CONFIG_GLOBAL=/dev/null")
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("%s: %w: %.500s", filepath.Base(name), err, strings.TrimSpace(string(out)))
	}
	return nil
}
