package main

import (
	"io"
	"os"
	"time"

	"github.com/mattn/go-isatty"
	"github.com/rs/zerolog"
	"github.com/rs/zerolog/diode"
)

// newLog makes the log of the process. It goes to w, which is stderr: stdout belongs to the protocol.
func newLog(c *Config, w *os.File) zerolog.Logger {
	zerolog.TimeFieldFormat = "2006-01-02T15:04:05.000Z07:00"
	zerolog.DurationFieldUnit = time.Millisecond
	level, err := zerolog.ParseLevel(c.LogLevel)
	if err != nil {
		level = zerolog.InfoLevel // Validate has told
	}
	return zerolog.New(logWriter(c, w, w)).Level(level).With().Timestamp().Logger()
}

// logWriter writes lines to out as w wants them.
func logWriter(c *Config, w *os.File, out io.Writer) io.Writer {
	if c.LogFormat == "console" || c.LogFormat == "auto" && isatty.IsTerminal(w.Fd()) {
		return zerolog.ConsoleWriter{Out: out, TimeFormat: "15:04:05.000", NoColor: !isatty.IsTerminal(w.Fd()) || os.Getenv("NO_COLOR") != ""}
	}
	return out
}

const (
	// logLines are how many lines of the log may wait for whoever reads stderr.
	logLines = 2048
	// logEnd is how long the last of them may take.
	logEnd = 200 * time.Millisecond
)

// freeLog lets the log go on a goroutine of its own, for a process whose stderr belongs to a client: one that does not read
// it must not hold up calls. When too many lines wait some are lost, which is told. end writes what still waits.
func (a *app) freeLog() (end func()) {
	lines := diode.NewWriter(struct{ io.Writer }{os.Stderr}, logLines, 0, func(missed int) {
		l := newLog(&a.cfg, os.Stderr)
		l.Warn().Int("lines", missed).Msg("lines of the log were lost: nobody read stderr for a while")
	})
	a.log = a.log.Output(logWriter(&a.cfg, os.Stderr, lines))
	return func() {
		done := make(chan struct{})
		go func() {
			_ = lines.Close() // not stderr itself: what is wrapped cannot be closed
			close(done)
		}()
		select {
		case <-done:
		case <-time.After(logEnd):
		}
	}
}
