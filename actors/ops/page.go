package ops

import (
	"embed"
	"io/fs"
	"net/http"
)

// files are all that the page loads. Nothing comes from elsewhere.
//
//go:embed page
var files embed.FS

func pageRoutes(mux *http.ServeMux) {
	page, err := fs.Sub(files, "page")
	if err != nil {
		panic(err) // embedded above
	}
	mux.Handle("GET /", http.FileServerFS(page))
}
