package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/sync/errgroup"

	"github.com/thawpool/thawpool/actors/catalog"
	"github.com/thawpool/thawpool/actors/catalog/config"
)

// checksAtOnce bounds the servers that "servers check" starts side by side: most are a node or Python process each.
const checksAtOnce = 4

// checkedServer is one line of "servers check --json".
type checkedServer struct {
	Name     string   `json:"name"`
	OK       bool     `json:"ok"`
	MS       int64    `json:"ms"` // to start, shake hands and list
	Version  string   `json:"version,omitempty"`
	Tools    int      `json:"tools"`
	Error    string   `json:"error,omitempty"`
	Problems []string `json:"problems,omitempty"`
}

func serversCheckCommand(open openCatalog, check checkServer) *cobra.Command {
	asJSON := false
	cmd := &cobra.Command{
		Use:   "check [SERVER...]",
		Short: "Start or reach servers, all by default, and list their tools anew",
		Long: "Start or reach servers, all by default, list their tools anew, and keep them for search.\n" +
			"The exit status is 0 when all of them answer and their files have no error.",
		RunE: func(cmd *cobra.Command, args []string) error {
			return withCatalog(cmd, open, func(ctx context.Context, c *catalog.Catalog) error {
				results, err := checkAll(ctx, c, check, args)
				if err != nil {
					return err
				}
				faults := fileFaults(c.Snapshot(), args)
				for _, p := range faults {
					fmt.Fprintln(cmd.ErrOrStderr(), p)
				}
				if asJSON {
					err = printJSON(cmd.OutOrStdout(), results)
				} else {
					printChecked(cmd.OutOrStdout(), results)
				}
				return errors.Join(err, verdict(results, faults))
			})
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	return cmd
}

// checkAll checks the named servers, or all that are not turned off by the user.
func checkAll(ctx context.Context, c *catalog.Catalog, check checkServer, names []string) ([]checkedServer, error) {
	s := c.Snapshot()
	var defs []config.Server
	for _, name := range names {
		def, err := s.Resolve(name)
		if err != nil {
			return nil, err
		}
		defs = append(defs, def)
	}
	if len(names) == 0 {
		for _, def := range s.Definitions() {
			if def.Off == "" {
				defs = append(defs, def)
			}
		}
	}
	results := make([]checkedServer, len(defs))
	var group errgroup.Group
	group.SetLimit(checksAtOnce)
	for i, def := range defs {
		group.Go(func() error {
			results[i] = checkOne(ctx, c, check, def)
			return nil // one that fails ends no others
		})
	}
	return results, group.Wait()
}

func checkOne(ctx context.Context, c *catalog.Catalog, check checkServer, def config.Server) checkedServer {
	began := time.Now()
	listing, err := check(ctx, def)
	r := checkedServer{Name: def.Name, MS: time.Since(began).Milliseconds()}
	if err != nil {
		r.Error = err.Error()
		return r
	}
	c.SetTools(def, listing)
	d, err := c.Snapshot().Describe(def.Name, nil)
	if err != nil {
		r.Error = err.Error()
		return r
	}
	r.OK, r.Version, r.Tools, r.Problems = true, d.Version, max(d.Tools, 0), c.Snapshot().ToolProblems(def.Name)
	return r
}

// fileFaults are what makes the named servers, or anything at all, unusable.
func fileFaults(s *catalog.Snapshot, names []string) []config.Problem {
	var faults []config.Problem
	for _, p := range s.Problems() {
		if p.Fatal && len(names) == 0 {
			faults = append(faults, p)
		}
	}
	return faults
}

func printChecked(w io.Writer, results []checkedServer) {
	for _, r := range results {
		if !r.OK {
			fmt.Fprintf(w, "✗ %s: %s\n", r.Name, r.Error)
			continue
		}
		fmt.Fprintf(w, "✓ %s: %d tools, %d ms %s\n", r.Name, r.Tools, r.MS, r.Version)
		for _, p := range r.Problems {
			fmt.Fprintln(w, "  "+p)
		}
	}
}

func verdict(results []checkedServer, faults []config.Problem) error {
	failed := 0
	for _, r := range results {
		if !r.OK {
			failed++
		}
	}
	switch {
	case failed > 0:
		return fmt.Errorf("%d of %d servers cannot be used", failed, len(results))
	case len(faults) > 0:
		return errors.New("there are errors in the server files")
	}
	return nil
}
