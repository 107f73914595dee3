package front

import (
	"context"
	"encoding/base64"
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/mark3labs/mcp-go/mcp"
	"github.com/mark3labs/mcp-go/server"
)

const (
	capabilitiesURI = "thawpool://capabilities"
	outputPrefix    = "thawpool://output/"
	mimeText        = "text/plain"
)

// outputURI names the whole output of a call; stream is stdout or stderr.
func outputURI(id, stream string) string { return outputPrefix + id + "/" + stream }

// addResources offers the capability text, and whole outputs by a template, so that the list of resources stays short
// however many are kept.
func (f *Front) addResources(s *server.MCPServer) {
	if f.cfg.Capabilities != nil {
		r := mcp.NewResource(capabilitiesURI, "capabilities", mcp.WithMIMEType(mimeText),
			mcp.WithResourceDescription("What code run by "+toolName+" can do here"))
		s.AddResource(r, func(context.Context, mcp.ReadResourceRequest) ([]mcp.ResourceContents, error) {
			return []mcp.ResourceContents{mcp.TextResourceContents{
				URI: capabilitiesURI, MIMEType: mimeText, Text: f.cfg.Capabilities()}}, nil
		})
	}
	if f.cfg.Outputs != nil {
		t := mcp.NewResourceTemplate(outputPrefix+"{request}/{stream}", "output", mcp.WithTemplateMIMEType(mimeText),
			mcp.WithTemplateDescription("The whole output of a recent call whose answer was cut; stream is stdout or stderr"))
		s.AddResourceTemplate(t, f.readOutput)
	}
}

func (f *Front) readOutput(ctx context.Context, req mcp.ReadResourceRequest) ([]mcp.ResourceContents, error) {
	id, stream, _ := strings.Cut(strings.TrimPrefix(req.Params.URI, outputPrefix), "/")
	data, ok, err := f.cfg.Outputs.Read(id, stream)
	if err != nil {
		return nil, err
	}
	if !ok {
		return nil, withCode(ctx, mcp.RESOURCE_NOT_FOUND, fmt.Errorf(
			"no output %s is kept: only what was cut is, for %v or until newer ones need the room", clip(req.Params.URI), f.cfg.Outputs.keep))
	}
	if !utf8.Valid(data) {
		return []mcp.ResourceContents{mcp.BlobResourceContents{
			URI: req.Params.URI, MIMEType: "application/octet-stream", Blob: base64.StdEncoding.EncodeToString(data)}}, nil
	}
	return []mcp.ResourceContents{mcp.TextResourceContents{URI: req.Params.URI, MIMEType: mimeText, Text: string(data)}}, nil
}
