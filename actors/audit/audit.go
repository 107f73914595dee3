// Package audit keeps a record of what was run: one JSON line a call, appended and handed to the kernel before the answer
// leaves. It holds hashes and counts, not what the code worked on: the code itself only when that is asked for.
package audit

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/gofrs/flock"
	"github.com/rs/zerolog"
	"gopkg.in/natefinch/lumberjack.v2"

	"github.com/thawpool/thawpool/actors"
	"github.com/thawpool/thawpool/actors/catalog/text"
)

const (
	// fileMB and filesKept bound the log on disk: as many files of so many MiB besides the current one, compressed.
	fileMB    = 100
	filesKept = 10
	// innerMost bounds the inner calls in one line; InnerCount has the whole number.
	innerMost = 200
	// nameBytes bounds a name that code chose.
	nameBytes = 128
)

// Runner runs calls.
type Runner interface {
	Run(ctx context.Context, req actors.Request) actors.Result
}

// Config is what a Log is made of.
type Config struct {
	File     string // absolute
	Code     bool   // write the code and not only its hash
	Required bool   // run nothing that cannot be written down
	Failed   func() // called for each line that was lost; may be nil
	Log      zerolog.Logger
}

// Log is an audit log. It is safe for concurrent use.
type Log struct {
	cfg  Config
	out  *lumberjack.Logger
	lock *flock.Flock

	mu  sync.Mutex
	err error // of the last line; nil when it was written
}

// Open makes sure that the log can be written. While another process writes to the same file, this one takes a file beside it
// that has its pid in its name: of two that rotate one file, one would write to what the other has packed away.
func Open(c Config) (*Log, error) {
	if err := os.MkdirAll(filepath.Dir(c.File), 0o700); err != nil {
		return nil, fmt.Errorf("audit log: %w", err)
	}
	lock := flock.New(c.File+".lock", flock.SetPermissions(0o600))
	got, err := lock.TryLock()
	if err != nil {
		return nil, fmt.Errorf("audit log: %w", err)
	}
	if !got {
		ext := filepath.Ext(c.File)
		c.File = fmt.Sprintf("%s-%d%s", strings.TrimSuffix(c.File, ext), os.Getpid(), ext)
	}
	f, err := os.OpenFile(c.File, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err == nil {
		err = f.Close()
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("audit log: %w", err), lock.Close())
	}
	return &Log{cfg: c, lock: lock, out: &lumberjack.Logger{Filename: c.File, MaxSize: fileMB, MaxBackups: filesKept, Compress: true}}, nil
}

// File is where it is written.
func (l *Log) File() string { return l.cfg.File }

// Close closes the file.
func (l *Log) Close() error { return errors.Join(l.out.Close(), l.lock.Close()) }

// Problem is why the log cannot be written at present, nil when it can. After a line that was lost it tries.
func (l *Log) Problem() error {
	if err := l.probe(); err != nil {
		return fmt.Errorf("the audit log cannot be written: %w", err)
	}
	return nil
}

// Line is one call.
type Line struct {
	Time       time.Time     `json:"time"` // when it was read
	Request    string        `json:"request"`
	Trace      string        `json:"trace,omitempty"`
	CodeSHA256 string        `json:"codeSha256"`
	Code       *string       `json:"code,omitempty"`
	Servers    []string      `json:"servers,omitempty"` // those that the call was narrowed to
	Status     actors.Status `json:"status"`
	Error      string        `json:"error,omitempty"` // its type
	ExitCode   *int          `json:"exitCode,omitempty"`
	Sandbox    string        `json:"sandbox,omitempty"`
	Pool       string        `json:"pool,omitempty"`
	QueueMS    float64       `json:"queueMs"`
	ThawMS     float64       `json:"thawMs"`
	RunMS      float64       `json:"runMs"`
	CPUMS      float64       `json:"cpuMs"`
	PeakBytes  int64         `json:"peakMemoryBytes"`
	Stdout     int64         `json:"stdoutBytes"`
	Stderr     int64         `json:"stderrBytes"`
	Inner      []Inner       `json:"inner,omitempty"`
	InnerCount int           `json:"innerCount,omitempty"`
}

// Inner is one call that the code made.
type Inner struct {
	Server     string  `json:"server,omitempty"`
	Tool       string  `json:"tool"`
	ArgsSHA256 string  `json:"argsSha256"` // of the arguments as the code sent them, with server and tool
	MS         float64 `json:"ms"`
	BytesIn    int     `json:"bytesIn"`
	BytesOut   int     `json:"bytesOut"`
	Outcome    string  `json:"outcome"`
}

// Before gives a runner whose every call is written down before its answer is given.
func (l *Log) Before(next Runner) Runner { return &runner{log: l, next: next} }

type runner struct {
	log  *Log
	next Runner
}

// Run implements Runner.
func (r *runner) Run(ctx context.Context, req actors.Request) actors.Result {
	if req.Queued.IsZero() {
		req.Queued = time.Now()
	}
	if r.log.cfg.Required {
		if err := r.log.probe(); err != nil {
			return actors.Result{Status: actors.StatusRejected, Receipt: actors.Receipt{RequestID: req.ID},
				Error: &actors.RunError{Type: "Unavailable", Message: "nothing is run while the audit log cannot be written (--audit-required): " + err.Error()}}
		}
	}
	t := &trail{}
	req.Follow = actors.Followers(req.Follow, t)
	res := r.next.Run(ctx, req)
	r.log.write(r.log.line(req, &res, t))
	return res
}

// probe tells whether a line could be written now: after one that was lost, by writing an empty one.
func (l *Log) probe() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.err == nil {
		return nil
	}
	_, l.err = l.out.Write([]byte("\n"))
	return l.err
}

func (l *Log) line(req actors.Request, res *actors.Result, t *trail) Line {
	p := res.Receipt
	line := Line{Time: req.Queued, Request: req.ID, Trace: req.Trace, CodeSHA256: hash([]byte(req.Code)), Status: res.Status,
		ExitCode: res.ExitCode, Sandbox: p.Sandbox, Pool: p.Pool, QueueMS: p.QueueMS, ThawMS: p.ThawMS, RunMS: p.RunMS,
		CPUMS: p.CPUMS, PeakBytes: p.PeakBytes, Stdout: res.StdoutBytes, Stderr: res.StderrBytes}
	for _, s := range req.Servers {
		line.Servers = append(line.Servers, text.Head(s, nameBytes))
	}
	if res.Error != nil {
		line.Error = text.Head(res.Error.Type, nameBytes)
	}
	if l.cfg.Code {
		line.Code = &req.Code
	}
	line.Inner, line.InnerCount = t.list()
	line.InnerCount = max(line.InnerCount, p.CallCount)
	return line
}

// write appends a line. The kernel has it when write returns; it is not waited for the disk.
func (l *Log) write(line Line) {
	data, err := json.Marshal(line)
	data = append(data, '\n')
	l.mu.Lock()
	defer l.mu.Unlock()
	was := l.err
	if was != nil {
		data = append([]byte("\n"), data...) // part of the line before may have been written
	}
	if err == nil {
		_, err = l.out.Write(data)
	}
	l.err = err
	if err == nil {
		return
	}
	if l.cfg.Failed != nil {
		l.cfg.Failed()
	}
	if was == nil {
		l.cfg.Log.Error().Str("event", "audit").Str("request", line.Request).Err(err).Msg("a call is missing in the audit log")
	}
}

func hash(b []byte) string {
	sum := sha256.Sum256(b)
	return hex.EncodeToString(sum[:])
}
