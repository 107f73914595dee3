package ops

import (
	"context"
	"errors"
	"net"
	"net/http"
	"sync"
	"time"

	"github.com/thawpool/thawpool/actors"
)

const (
	headerMax  = 10 * time.Second // to read a request's header
	idleMax    = 2 * time.Minute
	headerMost = 16 << 10 // bytes
	closeMax   = 500 * time.Millisecond
)

// Ops watches over one process and serves what it sees. It is safe for concurrent use and must be closed.
type Ops struct {
	cfg     Config
	health  *health
	boxes   boxes
	past    history
	checks  checks
	readers chan struct{} // holds one token for each reader of events

	life    context.Context
	end     context.CancelFunc
	work    sync.WaitGroup
	mu      sync.Mutex
	servers []*http.Server
}

var _ actors.Observer = (*Ops)(nil)

// New makes an Ops. It starts nothing.
func New(c Config) *Ops {
	if c.Started.IsZero() {
		c.Started = time.Now()
	}
	o := &Ops{cfg: c, readers: make(chan struct{}, readersMost)}
	o.health = newHealth(&o.cfg)
	o.life, o.end = context.WithCancel(context.Background())
	return o
}

// Observe implements actors.Observer.
func (o *Ops) Observe(e actors.Event) { o.health.Observe(e) }

// DaemonLost notes that containerd has gone with all sandboxes.
func (o *Ops) DaemonLost() { o.health.daemonLost() }

// Health is whether sandboxes can be had now.
func (o *Ops) Health() Health { return o.health.check() }

// Watch looks at the health every second, takes samples for the charts, and makes the self-checks, until Close.
func (o *Ops) Watch() {
	o.work.Go(func() {
		tick := time.NewTicker(watchEvery)
		defer tick.Stop()
		for {
			select {
			case now := <-tick.C:
				o.look(now)
			case <-o.health.news:
				o.health.check()
			case <-o.life.Done():
				return
			}
		}
	})
}

func (o *Ops) look(now time.Time) {
	o.health.check()
	if sys, err := o.cfg.System(); err == nil {
		o.past.take(sys.Stats(), o.cfg.Recorder)
	}
	o.work.Go(func() { o.health.probeIfIdle(o.life, now) })
}

// serve answers on l until Close.
func (o *Ops) serve(l net.Listener, h http.Handler) {
	s := &http.Server{Handler: h, ReadHeaderTimeout: headerMax, IdleTimeout: idleMax, MaxHeaderBytes: headerMost,
		BaseContext: func(net.Listener) context.Context { return o.life }}
	o.mu.Lock()
	o.servers = append(o.servers, s)
	o.mu.Unlock()
	o.work.Go(func() {
		if err := s.Serve(l); err != nil && !errors.Is(err, http.ErrServerClosed) {
			o.cfg.Log.Error().Err(err).Msg("operators are no longer served")
		}
	})
}

// Close ends everything and returns when nothing of it runs any more.
func (o *Ops) Close() {
	o.end()
	o.mu.Lock()
	servers := o.servers
	o.mu.Unlock()
	for _, s := range servers {
		ctx, end := context.WithTimeout(context.Background(), closeMax)
		if s.Shutdown(ctx) != nil {
			_ = s.Close() // a reader that does not read
		}
		end()
	}
	o.work.Wait()
}
