package catalog

import (
	"testing"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) {
	// bleve v2.6.3 starts four of these when the program starts, for all indexes there will be.
	goleak.VerifyTestMain(m, goleak.IgnoreTopFunction("github.com/blevesearch/bleve_index_api.AnalysisWorker"))
}
