package main

import (
	"io"
	"os"
	"time"

	"github.com/mattn/go-isatty"
	"github.com/rs/zerolog"
)

// newLog makes the log of the process. It goes to w, which is stderr: stdout belongs to the protocol.
func newLog(c *Config, w *os.File) zerolog.Logger {
	zerolog.TimeFieldFormat = "2006-01-02T15:04:05.000Z07:00"
	zerolog.DurationFieldUnit = time.Millisecond
	level, err := zerolog.ParseLevel(c.LogLevel)
	if err != nil {
		level = zerolog.InfoLevel // Validate has told
	}
	var out io.Writer = w
	if c.LogFormat == "console" || c.LogFormat == "auto" && isatty.IsTerminal(w.Fd()) {
		out = zerolog.ConsoleWriter{Out: w, TimeFormat: "15:04:05.000", NoColor: !isatty.IsTerminal(w.Fd()) || os.Getenv("NO_COLOR") != ""}
	}
	return zerolog.New(out).Level(level).With().Timestamp().Logger()
}
