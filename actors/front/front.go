package front

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/mark3labs/mcp-go/mcp"
	"github.com/mark3labs/mcp-go/server"
	"github.com/rs/zerolog"

	"github.com/thawpool/thawpool/actors"
)

// The defaults of Config's optional fields.
const (
	// DefaultMaxMessage is the longest line that is taken in, bytes: a call with several MiB of code and its escapes
	// fits with room to spare, and one line cannot exhaust a small machine.
	DefaultMaxMessage = 64 << 20
	// DefaultHeartbeat is how often a running call reports progress to a client that gave a token.
	DefaultHeartbeat = 5 * time.Second
	// DrainTime is how long calls may still run after the end of input. With EndTime and the time to destroy sandboxes
	// it keeps the process's exit within two seconds, after which clients commonly kill.
	DrainTime = 1200 * time.Millisecond
	// EndTime is how long calls have to answer once they were told to end, and how long the last answers may take to be
	// written.
	EndTime = 200 * time.Millisecond
	// DefaultMaxInFlight bounds the calls held at once when the pool's size is not known here.
	DefaultMaxInFlight = 256
	// MinTimeout is the shortest timeout a call may ask for.
	MinTimeout = 100 * time.Millisecond
)

// Why a call's context ended. context.Cause of the context that a Runner is given is one of these, or nothing of ours.
var (
	// ErrCancelled: the client took the request back. Its answer is thrown away.
	ErrCancelled = errors.New("the client cancelled the call")
	// ErrInputEnded: the client has gone or the process is stopping.
	ErrInputEnded = errors.New("the session has ended")
)

// Runner runs Python. Run returns once the answer is known, also when ctx ends: then soon, with what there is.
type Runner interface {
	Run(ctx context.Context, req actors.Request) actors.Result
}

// Mode is the form of the text that the model reads.
type Mode string

// The modes. Both come with the same structured content.
const (
	ModeCompact Mode = "compact" // the output as it is, and a labelled line for what else there is
	ModeTOON    Mode = "toon"    // Token-Oriented Object Notation
)

// Config is what a Front is made of. Runner, Timeout and MaxTimeout are required.
type Config struct {
	Runner     Runner
	Version    string        // of this program, as clients see it
	Timeout    time.Duration // what a call gets that asks for nothing
	MaxTimeout time.Duration // the most a call may ask for

	MaxInFlight int           // calls taken in at once, beyond which they are refused; 0 means DefaultMaxInFlight
	MaxMessage  int           // bytes of one line; 0 means DefaultMaxMessage
	Heartbeat   time.Duration // 0 means DefaultHeartbeat
	Drain       time.Duration // 0 means DrainTime; negative means none

	Mode     Mode     // "" means ModeCompact
	Profiles []string // names of pools a call may choose from; with fewer than two the argument does not exist

	Servers      func() string // names the servers that code may call, in MaxSummary bytes; nil or "" when there are none
	Manager      Manager       // finds and adds servers; nil offers no tools for it
	Capabilities func() string // text of the capability resource; nil when there is none
	Outputs      *Spool        // keeps whole outputs as resources; nil keeps none
	OnEnd        func()        // called once a session takes in nothing more, before it drains; may be nil
	Log          zerolog.Logger
}

// Front answers MCP clients. It is safe for concurrent use: each Serve is its own session.
type Front struct {
	cfg  Config
	mcp  *server.MCPServer
	log  zerolog.Logger
	boot string                 // random, so that request ids of two processes differ
	seq  atomic.Uint64          // numbers requests
	sess atomic.Uint64          // numbers sessions
	told atomic.Pointer[string] // the summary of servers that clients know
}

// New checks cfg and builds the face. It starts nothing.
func New(cfg Config) (*Front, error) {
	if cfg.Runner == nil {
		return nil, errors.New("front: a runner is required")
	}
	if cfg.Timeout <= 0 || cfg.MaxTimeout < cfg.Timeout || cfg.MaxTimeout < MinTimeout {
		return nil, fmt.Errorf("front: timeout %v must be positive and at most max timeout %v", cfg.Timeout, cfg.MaxTimeout)
	}
	switch cfg.Mode {
	case "":
		cfg.Mode = ModeCompact
	case ModeCompact, ModeTOON:
	default:
		return nil, fmt.Errorf("front: unknown output mode %q", cfg.Mode)
	}
	orDefault(&cfg.MaxInFlight, DefaultMaxInFlight)
	orDefault(&cfg.MaxMessage, DefaultMaxMessage)
	orDefault(&cfg.Heartbeat, DefaultHeartbeat)
	orDefault(&cfg.Drain, DrainTime)
	if cfg.Version == "" {
		cfg.Version = "dev"
	}
	var salt [3]byte
	_, _ = rand.Read(salt[:]) // crypto/rand never fails: it ends the process instead
	f := &Front{cfg: cfg, log: cfg.Log, boot: hex.EncodeToString(salt[:])}
	f.mcp = f.newServer()
	now := f.summary()
	f.told.Store(&now)
	return f, nil
}

func orDefault[T int | time.Duration](v *T, d T) {
	if *v == 0 {
		*v = d
	}
}

func (f *Front) newServer() *server.MCPServer {
	s := server.NewMCPServer("thawpool", f.cfg.Version,
		server.WithTitle("thawpool"),
		server.WithInstructions(f.instructions()),
		server.WithToolCapabilities(true),
		server.WithResourceCapabilities(false, false),
		server.WithRecovery(),
		server.WithResourceRecovery(),
		server.WithLogger(slog.New(slog.DiscardHandler)), // requests are logged here, with our own ids
		server.WithToolFilter(f.currentTools),
	)
	s.AddTool(f.tool(), f.runPython)
	f.addManaging(s)
	f.addResources(s)
	return s
}

// MCP gives the protocol server, for other tools and other transports.
func (f *Front) MCP() *server.MCPServer { return f.mcp }

// ToolsChanged says that Config.Servers may have another answer. If it has, clients are told to ask for the tools again.
func (f *Front) ToolsChanged() {
	now := f.summary()
	if *f.told.Swap(&now) == now {
		return
	}
	f.mcp.SendNotificationToAllClients(mcp.MethodNotificationToolsListChanged, nil)
}

// requestID makes the id that runs through all log lines of a call.
func (f *Front) requestID() string {
	return fmt.Sprintf("%s-%d", f.boot, f.seq.Add(1))
}
