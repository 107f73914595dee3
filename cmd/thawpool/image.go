package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"text/tabwriter"
	"time"

	containerd "github.com/containerd/containerd/v2/client"
	"github.com/docker/go-units"
	"github.com/rs/zerolog"
	"github.com/spf13/cobra"

	"github.com/thawpool/thawpool/runtime/image"
)

// openImages connects to the private daemon for a command on its images. The caller calls the second result when done.
type openImages func(context.Context) (*containerd.Client, func() error, error)

// newImageCommand makes "thawpool image". The commands log to the logger in their context.
func newImageCommand(open openImages) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "image",
		Short: "List, pull, import and remove the images that sandboxes are made from",
		Long: `List, pull, import and remove the images that sandboxes are made from.

The default image is made from the Python inside this program at first use. Any other image with Python 3.9 or
newer works too: bring it here by "pull" or "import", then name it with --image.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(imageListCommand(open), imagePullCommand(open), imageImportCommand(open), imageRemoveCommand(open))
	return cmd
}

func imageListCommand(open openImages) *cobra.Command {
	asJSON := false
	cmd := &cobra.Command{
		Use:     "ls",
		Aliases: []string{"list"},
		Short:   "List the images that are here",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return withImages(cmd.Context(), open, func(ctx context.Context, c *containerd.Client) error {
				infos, err := image.List(ctx, c)
				if err != nil {
					return err
				}
				if asJSON {
					return printImagesJSON(cmd.OutOrStdout(), infos)
				}
				return printImages(cmd.OutOrStdout(), infos)
			})
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	return cmd
}

func printImagesJSON(w io.Writer, infos []image.Info) error {
	if infos == nil {
		infos = []image.Info{} // a list, not null
	}
	encoder := json.NewEncoder(w)
	encoder.SetIndent("", "  ")
	return encoder.Encode(infos)
}

func printImages(w io.Writer, infos []image.Info) error {
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "IMAGE\tDIGEST\tSIZE\tPYTHON\tUPDATED")
	for _, info := range infos {
		fmt.Fprintf(table, "%s\t%.12s\t%s\t%s\t%s\n", info.Ref, info.Digest.Encoded(), units.HumanSize(float64(info.Size)),
			info.Python, info.Updated.Local().Format(time.DateTime))
	}
	return table.Flush()
}

func imagePullCommand(open openImages) *cobra.Command {
	return &cobra.Command{
		Use:   "pull REF",
		Short: "Fetch an image from its registry",
		Args:  cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return withImages(cmd.Context(), open, func(ctx context.Context, c *containerd.Client) error {
				ref, err := image.Pull(ctx, c, args[0], *zerolog.Ctx(ctx))
				if err == nil {
					fmt.Fprintln(cmd.OutOrStdout(), ref)
				}
				return err
			})
		},
	}
}

func imageImportCommand(open openImages) *cobra.Command {
	name := ""
	cmd := &cobra.Command{
		Use:   "import FILE.tar",
		Short: "Take images from a tar: docker save, an OCI layout, or a whole root filesystem",
		Args:  cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return withImages(cmd.Context(), open, func(ctx context.Context, c *containerd.Client) error {
				refs, err := image.Import(ctx, c, args[0], name, *zerolog.Ctx(ctx))
				for _, ref := range refs {
					fmt.Fprintln(cmd.OutOrStdout(), ref)
				}
				return err
			})
		},
	}
	cmd.Flags().StringVar(&name, "name", "", "the image's name, for a file that holds one image")
	return cmd
}

func imageRemoveCommand(open openImages) *cobra.Command {
	return &cobra.Command{
		Use:     "rm REF...",
		Aliases: []string{"remove"},
		Short:   "Remove images; running sandboxes keep theirs",
		Args:    cobra.MinimumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return withImages(cmd.Context(), open, func(ctx context.Context, c *containerd.Client) error {
				var errs []error
				for _, ref := range args {
					errs = append(errs, image.Remove(ctx, c, ref, *zerolog.Ctx(ctx)))
				}
				return errors.Join(errs...)
			})
		},
	}
}

// withImages runs do with a connected client.
func withImages(ctx context.Context, open openImages, do func(context.Context, *containerd.Client) error) error {
	client, done, err := open(ctx)
	if err != nil {
		return err
	}
	return errors.Join(do(ctx, client), done())
}
