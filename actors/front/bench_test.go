package front

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"os"
	"testing"

	"github.com/thawpool/thawpool/actors"
)

// BenchmarkFront is the front alone, with a runner that answers at once, at concurrency 64 over pipes of the kernel's
// size: one op is one call.
func BenchmarkFront(b *testing.B) {
	const concurrency = 64
	value := "42"
	cfg := config(runnerFunc(func(_ context.Context, req actors.Request) actors.Result {
		return actors.Result{Status: actors.StatusSuccess, ExitCode: new(int), Stdout: "hello\n", Value: &value, StdoutBytes: 6,
			Receipt: actors.Receipt{RequestID: req.ID, Pool: "hit", Sandbox: "t-1", ThawMS: 0.7, RunMS: 2.5, CPUMS: 3, PeakBytes: 20 << 20}}
	}))
	cfg.MaxInFlight = 2 * concurrency
	f, err := New(cfg)
	if err != nil {
		b.Fatal(err)
	}
	ir, iw := osPipe(b)
	or, ow := osPipe(b)
	done := make(chan error, 1)
	go func() { done <- f.Serve(b.Context(), ir, ow) }()
	answers := bufio.NewReaderSize(or, 1<<20)
	free := make(chan struct{}, concurrency)
	go func() {
		w := bufio.NewWriterSize(iw, 32<<10)
		for i := range b.N {
			select {
			case free <- struct{}{}:
			default:
				_ = w.Flush()
				free <- struct{}{}
			}
			fmt.Fprintln(w, callLine(fmt.Sprint(i), "print('hello')\n6*7"))
		}
		_ = w.Flush()
	}()
	b.ResetTimer()
	for range b.N {
		if _, err := answers.ReadSlice('\n'); err != nil {
			b.Fatal(err)
		}
		<-free
	}
	b.StopTimer()
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "calls/s")
	_ = iw.Close()
	if err := <-done; err != nil {
		b.Fatal(err)
	}
}

func osPipe(b *testing.B) (io.Reader, io.WriteCloser) {
	b.Helper()
	r, w, err := os.Pipe()
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = r.Close(); _ = w.Close() })
	return r, w
}
