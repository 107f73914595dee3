package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/thawpool/thawpool/actors/catalog"
	"github.com/thawpool/thawpool/actors/catalog/config"
)

// openCatalog loads the configured servers with what the cache knows of them. The caller calls the second result when done.
type openCatalog func(context.Context) (*catalog.Catalog, func() error, error)

// checkServer connects to one server, lists its tools and disconnects.
type checkServer func(context.Context, config.Server) (catalog.Listing, error)

// newServersCommand makes "thawpool servers".
func newServersCommand(open openCatalog, check checkServer) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "servers",
		Short: "Show and test the MCP servers that sandboxed code can call",
		Long: `Show and test the MCP servers that sandboxed code can call.

They are defined in ~/MCPs/*.json, in the file of MCP_SERVERS_CONFIG, and in files named by --servers-config. Where two
define the same name, --servers-config counts before MCP_SERVERS_CONFIG, that before ~/MCPs, and the files of a
directory count by name.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(serversListCommand(open), serversToolsCommand(open, check), serversSearchCommand(open), serversCheckCommand(open, check))
	return cmd
}

// withCatalog runs do on the catalog.
func withCatalog(cmd *cobra.Command, open openCatalog, do func(context.Context, *catalog.Catalog) error) error {
	c, done, err := open(cmd.Context())
	if err != nil {
		return err
	}
	return errors.Join(do(cmd.Context(), c), done())
}

func printJSON(w io.Writer, v any) error {
	encoder := json.NewEncoder(w)
	encoder.SetIndent("", "  ")
	encoder.SetEscapeHTML(false)
	return encoder.Encode(v)
}

// listedServer is one line of "servers ls --json".
type listedServer struct {
	catalog.ServerInfo
	Transport config.Transport `json:"transport"`
	Tools     int              `json:"tools"` // -1 while they are not known
	Where     string           `json:"where"`
}

func serversListCommand(open openCatalog) *cobra.Command {
	asJSON := false
	cmd := &cobra.Command{
		Use:     "ls",
		Aliases: []string{"list"},
		Short:   "List the servers, and what is wrong in their files",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return withCatalog(cmd, open, func(_ context.Context, c *catalog.Catalog) error {
				s := c.Snapshot()
				list, err := listServers(s)
				if err != nil {
					return err
				}
				if asJSON {
					return printJSON(cmd.OutOrStdout(), map[string]any{"servers": list, "problems": s.Problems()})
				}
				for _, p := range s.Problems() {
					fmt.Fprintln(cmd.ErrOrStderr(), p)
				}
				return printServers(cmd.OutOrStdout(), list)
			})
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	return cmd
}

// listServers tells of every server, those turned off included.
func listServers(s *catalog.Snapshot) ([]listedServer, error) {
	list := []listedServer{}
	for _, def := range s.Definitions() {
		d, err := s.Describe(def.Name, nil)
		if err != nil {
			return nil, err
		}
		list = append(list, listedServer{ServerInfo: d.ServerInfo, Transport: def.Transport, Tools: d.Tools, Where: def.Source.String()})
	}
	return list, nil
}

func printServers(w io.Writer, list []listedServer) error {
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "SERVER\tIN CODE\tTRANSPORT\tTOOLS\tSTATE\tFROM")
	for _, s := range list {
		tools := "?"
		if s.Tools >= 0 {
			tools = strconv.Itoa(s.Tools)
		}
		fmt.Fprintf(table, "%s\tmcp_%s\t%s\t%s\t%s\t%s\n", s.Name, s.Alias, s.Transport, tools, s.State, s.Where)
	}
	return table.Flush()
}

func serversToolsCommand(open openCatalog, check checkServer) *cobra.Command {
	asJSON, full := false, false
	cmd := &cobra.Command{
		Use:   "tools SERVER [TOOL]",
		Short: "Show the tools of a server, or one tool with its whole documentation",
		Args:  cobra.RangeArgs(1, 2),
		RunE: func(cmd *cobra.Command, args []string) error {
			return withCatalog(cmd, open, func(ctx context.Context, c *catalog.Catalog) error {
				detail, tool := catalog.DetailSummary, ""
				if len(args) == 2 {
					full, tool = true, args[1]
				}
				if full {
					detail = catalog.DetailFull
				}
				docs, err := docsOf(ctx, c, check, args[0], tool, detail)
				if err != nil {
					return err
				}
				if asJSON {
					return printJSON(cmd.OutOrStdout(), docs)
				}
				for _, p := range c.Snapshot().ToolProblems(args[0]) {
					fmt.Fprintln(cmd.ErrOrStderr(), p)
				}
				printDocs(cmd.OutOrStdout(), docs, full)
				return nil
			})
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	cmd.Flags().BoolVar(&full, "full", false, "show whole documentation and types")
	return cmd
}

// docsOf documents tools, connecting to the server when they are not known.
func docsOf(ctx context.Context, c *catalog.Catalog, check checkServer, server, tool string, detail catalog.Detail) ([]catalog.ToolDoc, error) {
	docs, err := c.Snapshot().Docs(server, tool, detail, nil)
	if !errors.Is(err, catalog.ErrUnlisted) {
		return docs, err
	}
	def, err := c.Snapshot().Resolve(server)
	if err != nil {
		return nil, err
	}
	listing, err := check(ctx, def)
	if err != nil {
		return nil, err
	}
	c.SetTools(def, listing)
	return c.Snapshot().Docs(server, tool, detail, nil)
}

func printDocs(w io.Writer, docs []catalog.ToolDoc, full bool) {
	for i, d := range docs {
		if i > 0 {
			fmt.Fprintln(w)
		}
		if full && d.Doc != "" {
			fmt.Fprint(w, d.Doc)
		} else {
			fmt.Fprintln(w, d.Signature)
			if d.Description != "" {
				fmt.Fprintln(w, "    "+strings.ReplaceAll(d.Description, "\n", "\n    "))
			}
		}
		if d.Problem != "" {
			fmt.Fprintln(w, "    # "+d.Problem)
		}
	}
}

func serversSearchCommand(open openCatalog) *cobra.Command {
	asJSON, limit := false, 10
	cmd := &cobra.Command{
		Use:   "search WORDS...",
		Short: "Find tools by words, as search_tool_docs does in the sandbox",
		Args:  cobra.MinimumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return withCatalog(cmd, open, func(_ context.Context, c *catalog.Catalog) error {
				if limit < 1 || limit > catalog.MaxSearch {
					return fmt.Errorf("--limit must be from 1 to %d", catalog.MaxSearch)
				}
				s := c.Snapshot()
				docs, err := s.Search(strings.Join(args, " "), limit, catalog.DetailSummary, nil)
				if err != nil {
					return err
				}
				if n := unknownServers(s); n > 0 {
					fmt.Fprintf(cmd.ErrOrStderr(), "the tools of %d servers are not known yet: thawpool servers check\n", n)
				}
				if asJSON {
					return printJSON(cmd.OutOrStdout(), docs)
				}
				printFound(cmd.OutOrStdout(), docs)
				return nil
			})
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	cmd.Flags().IntVar(&limit, "limit", limit, "the most tools to show")
	return cmd
}

func unknownServers(s *catalog.Snapshot) int {
	n := 0
	for _, i := range s.Servers() {
		if i.State == catalog.StateUnknown {
			n++
		}
	}
	return n
}

func printFound(w io.Writer, docs []catalog.ToolDoc) {
	for _, d := range docs {
		fmt.Fprintf(w, "%.2f  mcp_%s.%s  %s\n", d.Score, d.ServerAlias, strings.TrimPrefix(d.Signature, "async def "), d.Description)
	}
}
