package actors

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/rs/zerolog"
	"golang.org/x/sync/semaphore"

	"github.com/thawpool/thawpool/actors/catalog"
	"github.com/thawpool/thawpool/actors/catalog/config"
	"github.com/thawpool/thawpool/actors/policy"
	"github.com/thawpool/thawpool/actors/upstream"
)

// Hub is the Bridge: it joins the catalog of servers, a Client actor for each of them that is used, the policy and the
// store. It is safe for concurrent use, and must be closed.
type Hub struct {
	cfg     HubConfig
	log     zerolog.Logger
	catalog *catalog.Catalog
	follow  func() // returns when the config files are no longer watched
	guard   upstream.Guard

	out      outside
	tasks    sync.WaitGroup // what out counts
	guardian *clientGuardian
	life     context.Context
	end      context.CancelFunc
	tickets  atomic.Uint64
	seen     atomic.Pointer[view]
	patience time.Duration       // searchPatience
	more     time.Duration       // searchMore
	index    time.Duration       // indexIdle
	problems []config.Problem    // told in the log; for onCatalog alone
	reading  *semaphore.Weighted // connections that are made only to read a list of tools

	mu      sync.Mutex // guards what follows
	clients map[clientKey]*clientRef
	fresh   map[clientKey]bool          // their tools were read by this process
	reads   map[clientKey]chan struct{} // readSoon's work
	asked   map[clientKey]bool          // a search has waited for them
	closing bool
}

var _ Bridge = (*Hub)(nil)

// clientKey names a Client: a definition that has changed is another one.
type clientKey struct{ name, hash string }

func keyOf(def config.Server) clientKey { return clientKey{def.Name, def.Hash} }

// clientRef is a Client with the number of those who use it or wait for it.
type clientRef struct {
	srv     *serverState
	props   *actor.Props
	pid     atomic.Pointer[actor.PID]
	users   int  // guarded by Hub.mu
	retired bool // its definition is gone; it ends when nobody uses it
}

// tell sends to the Client's actor, whichever it is now.
func (r *clientRef) tell(out outside, m any) { out.root.Send(r.pid.Load(), m) }

// readAtOnce bounds the servers that are started at once only to read their tools: with two cores, more of them would
// only start later.
const readAtOnce = 4

// NewHub loads the definitions and starts following their files. It starts no server.
func NewHub(cfg HubConfig) (*Hub, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	cfg = cfg.withDefaults()
	h := &Hub{
		cfg: cfg, log: cfg.Log, reading: semaphore.NewWeighted(readAtOnce), guardian: &clientGuardian{log: cfg.Log},
		patience: searchPatience, more: searchMore, index: indexIdle,
		clients: map[clientKey]*clientRef{}, fresh: map[clientKey]bool{},
		reads: map[clientKey]chan struct{}{}, asked: map[clientKey]bool{},
	}
	h.life, h.end = context.WithCancel(context.Background())
	quiet := h.log.Level(max(h.log.GetLevel(), zerolog.WarnLevel))
	sys := actor.NewActorSystem(actor.WithLoggerFactory(func(*actor.ActorSystem) *slog.Logger {
		return slog.New(zerolog.NewSlogHandler(quiet))
	}))
	h.out = outside{root: sys.Root, wg: &h.tasks}
	var err error
	h.catalog, err = catalog.New(catalog.Options{CacheDir: cfg.CacheDir, OnChange: h.onCatalog, Log: cfg.Log})
	if err != nil {
		h.end()
		return nil, fmt.Errorf("open catalog: %w", err)
	}
	h.follow = h.catalog.Follow(h.life, cfg.Sources)
	h.tasks.Go(h.watchHearts)
	h.tasks.Go(func() {
		if n := upstream.Sweep(h.life); n > 0 {
			h.log.Warn().Int("processes", n).Str(keyEvent, "swept").Msg("killed servers that a dead thawpool had left")
		}
	})
	return h, nil
}

// clientGuardian restarts a Client that fails, with growing delays, for ever. All Clients share it: protoactor keeps every
// guardian it has seen.
type clientGuardian struct {
	restarts restarts
	log      zerolog.Logger
}

// HandleFailure implements actor.SupervisorStrategy. It must never escalate.
func (g *clientGuardian) HandleFailure(_ *actor.ActorSystem, s actor.Supervisor, child *actor.PID, _ *actor.RestartStatistics, reason, _ any) {
	if err, ok := reason.(error); ok {
		logBug(g.log, err)
	}
	delay, _ := g.restarts.next(time.Now())
	restartAfter(delay, s, child)
}

// Snapshot is what policy lets code see of the servers now.
func (h *Hub) Snapshot() *catalog.Snapshot {
	all := h.catalog.Snapshot()
	if seen := h.seen.Load(); seen != nil && seen.all == all {
		return seen.visible
	}
	visible := h.visible(all)
	h.seen.Store(&view{all: all, visible: visible})
	return visible
}

// view is a snapshot with what policy leaves of it: it is made once, not for each run.
type view struct{ all, visible *catalog.Snapshot }

// Catalog is the catalog itself, with all that is configured.
func (h *Hub) Catalog() *catalog.Catalog { return h.catalog }

func (h *Hub) visible(s *catalog.Snapshot) *catalog.Snapshot {
	return s.Only(func(d config.Server) bool { return h.cfg.Policy.Server(d.Name) })
}

// show is the part of policy that decides what may be shown. A tool that may only be planned is shown.
func (h *Hub) show(server config.Server, tool catalog.Tool) bool {
	d, _ := h.cfg.Policy.Call(server.Name, policyTool(tool))
	return d != policy.Deny
}

func policyTool(t catalog.Tool) policy.Tool {
	a := t.Annotations
	return policy.Tool{
		Name:           t.Name,
		ReadOnly:       a.ReadOnly != nil && *a.ReadOnly,
		NotDestructive: a.Destructive != nil && !*a.Destructive,
	}
}

// onCatalog logs what is newly wrong in definitions and retires the Clients of those that are gone. It is called one at a
// time.
func (h *Hub) onCatalog(next *catalog.Snapshot) {
	before := h.problems
	h.problems = next.Problems()
	for _, p := range h.problems {
		if !slices.Contains(before, p) {
			h.log.Warn().Str(keyEvent, "definition").Msg(p.String())
		}
	}
	current := map[clientKey]bool{}
	for _, d := range next.Definitions() {
		current[keyOf(d)] = d.Off == ""
	}
	h.mu.Lock()
	gone := func(key clientKey, _ bool) bool { _, known := current[key]; return !known }
	maps.DeleteFunc(h.fresh, gone)
	maps.DeleteFunc(h.asked, gone)
	for key, ref := range h.clients {
		if ref.retired = !current[key]; ref.retired {
			h.settle(key, ref)
		}
	}
	h.mu.Unlock()
	if h.cfg.OnChange != nil {
		h.cfg.OnChange(h.visible(next))
	}
}

// settle ends a retired Client that nobody uses. mu is held.
func (h *Hub) settle(key clientKey, ref *clientRef) {
	if ref.retired && ref.users == 0 && !h.closing { // Close ends them all
		delete(h.clients, key)
		ref.tell(h.out, stopClient{})
		h.tasks.Go(func() { <-ref.srv.ended })
	}
}

// errHubClosed answers calls that come while thawpool ends.
var errHubClosed = errors.New("thawpool is being stopped")

// use finds or starts the Client of a definition, and counts its caller as a user until unuse.
func (h *Hub) use(def config.Server) (*clientRef, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.closing {
		return nil, errHubClosed
	}
	key := keyOf(def)
	ref := h.clients[key]
	if ref == nil {
		ref = h.spawn(def)
		h.clients[key] = ref
		now, err := h.catalog.Snapshot().Resolve(def.Name)
		ref.retired = err != nil || now.Hash != def.Hash // a run that began before the change
	}
	ref.users++
	return ref, nil
}

func (h *Hub) unuse(ref *clientRef) {
	h.mu.Lock()
	defer h.mu.Unlock()
	ref.users--
	h.settle(keyOf(ref.srv.def), ref)
}

// spawn starts the actor; nothing is connected yet. mu is held.
func (h *Hub) spawn(def config.Server) *clientRef {
	srv := newServerState(def, func(ctx context.Context) (*upstream.Conn, error) {
		return upstream.Dial(ctx, upstreamConfig(def, upstream.Config{
			MaxMessage: h.cfg.MaxMessage, Version: h.cfg.Version,
			Log: h.log.With().Str(keyServer, def.Name).Logger(), Guard: &h.guard,
		}))
	}, h.listed)
	terms := clientTerms{
		instances: h.cfg.Instances, idle: h.cfg.Idle, index: h.index,
		startMax: max(startLate, 2*h.startTimeout(def)), listMax: h.startTimeout(def),
	}
	props := actor.PropsFromProducer(func() actor.Actor {
		return &clientActor{srv: srv, out: h.out, terms: terms, log: h.log, obs: h.cfg.Observer}
	}, actor.WithGuardian(h.guardian))
	ref := &clientRef{srv: srv, props: props}
	ref.pid.Store(h.out.root.SpawnPrefix(props, "client-"))
	return ref
}

// upstreamConfig fills in what a definition says.
func upstreamConfig(def config.Server, c upstream.Config) upstream.Config {
	c.Name, c.Kind = def.Name, upstream.Kind(def.Transport)
	c.Command, c.Args, c.Env, c.Dir = def.Command, def.Args, def.Env, def.Dir
	c.URL, c.Headers = def.URL, def.Headers
	return c
}

// listed takes in what a server told of its tools.
func (h *Hub) listed(def config.Server, l catalog.Listing) {
	h.catalog.SetTools(def, l)
	h.mu.Lock()
	defer h.mu.Unlock()
	h.fresh[keyOf(def)] = true
}

// areFresh tells of each definition whether its tools were read by this process, by name.
func (h *Hub) areFresh(defs []config.Server) map[string]bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	fresh := make(map[string]bool, len(defs))
	for _, d := range defs {
		fresh[d.Name] = h.fresh[keyOf(d)]
	}
	return fresh
}

func (h *Hub) startTimeout(def config.Server) time.Duration {
	if def.StartTimeout > 0 {
		return def.StartTimeout
	}
	return h.cfg.StartTimeout
}

func (h *Hub) callTimeout(def config.Server) time.Duration {
	if def.CallTimeout > 0 {
		return def.CallTimeout
	}
	return h.cfg.CallTimeout
}
