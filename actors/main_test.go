package actors

import (
	"testing"

	"go.uber.org/goleak"

	"github.com/thawpool/thawpool/actors/upstream/fakeup"
)

// TestMain lets the test binary be the scripted upstream server, and fails when tests leave goroutines behind.
func TestMain(m *testing.M) {
	if fakeup.Active() {
		fakeup.Main()
	}
	// The search library starts its workers once for the whole process.
	goleak.VerifyTestMain(m, goleak.IgnoreAnyFunction("github.com/blevesearch/bleve_index_api.AnalysisWorker"))
}
