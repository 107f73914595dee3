package front

import (
	"sync/atomic"

	"github.com/mark3labs/mcp-go/mcp"
	"github.com/mark3labs/mcp-go/server"
)

var (
	_ server.ClientSession                 = (*session)(nil)
	_ server.SessionWithClientInfo         = (*session)(nil)
	_ server.SessionWithSubscriptionFilter = (*session)(nil)
)

// clientState is what mcp-go keeps of a client: its side of server.ClientSession. All of it is safe for concurrent use.
type clientState struct {
	name         string
	notes        chan<- mcp.JSONRPCNotification
	initialized  atomic.Bool
	info         atomic.Pointer[mcp.Implementation]
	capabilities atomic.Pointer[mcp.ClientCapabilities]
	version      atomic.Pointer[string]
	filter       atomic.Pointer[mcp.SubscriptionFilter]
}

// SessionID implements server.ClientSession.
func (c *clientState) SessionID() string { return c.name }

// Initialize implements server.ClientSession.
func (c *clientState) Initialize() { c.initialized.Store(true) }

// Initialized implements server.ClientSession.
func (c *clientState) Initialized() bool { return c.initialized.Load() }

// NotificationChannel implements server.ClientSession.
func (c *clientState) NotificationChannel() chan<- mcp.JSONRPCNotification { return c.notes }

// GetClientInfo implements server.SessionWithClientInfo.
func (c *clientState) GetClientInfo() mcp.Implementation { return orZero(c.info.Load()) }

// SetClientInfo implements server.SessionWithClientInfo.
func (c *clientState) SetClientInfo(i mcp.Implementation) { c.info.Store(&i) }

// GetClientCapabilities implements server.SessionWithClientInfo.
func (c *clientState) GetClientCapabilities() mcp.ClientCapabilities {
	return orZero(c.capabilities.Load())
}

// SetClientCapabilities implements server.SessionWithClientInfo.
func (c *clientState) SetClientCapabilities(v mcp.ClientCapabilities) { c.capabilities.Store(&v) }

// SetProtocolVersion is called by mcp-go with the revision that was negotiated.
func (c *clientState) SetProtocolVersion(v string) { c.version.Store(&v) }

// ProtocolVersion is the negotiated revision, or "" before there is one.
func (c *clientState) ProtocolVersion() string { return orZero(c.version.Load()) }

// SetSubscriptionFilter implements server.SessionWithSubscriptionFilter.
func (c *clientState) SetSubscriptionFilter(f mcp.SubscriptionFilter) { c.filter.Store(&f) }

// SubscriptionFilter implements server.SessionWithSubscriptionFilter.
func (c *clientState) SubscriptionFilter() (mcp.SubscriptionFilter, bool) {
	f := c.filter.Load()
	return orZero(f), f != nil && !f.IsEmpty()
}

func orZero[T any](p *T) (v T) {
	if p != nil {
		v = *p
	}
	return v
}
