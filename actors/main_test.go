package actors

import (
	"os"
	"testing"

	"github.com/thawpool/thawpool/actors/upstream/fakeup"
)

// TestMain lets the test binary be the scripted upstream server.
func TestMain(m *testing.M) {
	if fakeup.Active() {
		fakeup.Main()
	}
	os.Exit(m.Run())
}
