package actors

import (
	"time"

	"github.com/thawpool/thawpool/actors/upstream"
)

// keyServer is the log key for an upstream server's name.
const keyServer = "server"

// ClientState is what a server's Client is doing.
type ClientState string

// The states of a Client.
const (
	ClientIdle     ClientState = "idle"     // not connected; the next call connects
	ClientStarting ClientState = "starting" // connecting, maybe with calls that wait
	ClientRunning  ClientState = "running"
	ClientFailed   ClientState = "failed" // the last try failed; calls fail until RetryAt
	ClientStopping ClientState = "stopping"
	ClientHanging  ClientState = "hanging" // by a bug, and about to be replaced
)

// ClientStatus is one server's connections as operators see them.
type ClientStatus struct {
	Name      string      `json:"name"`
	State     ClientState `json:"state"`
	Error     string      `json:"error,omitempty"`   // why the last try or connection ended; cleaned, without secrets
	RetryAt   *time.Time  `json:"retryAt,omitempty"` // with ClientFailed: no try before
	Instances int         `json:"instances"`         // connections now
	PIDs      []int       `json:"pids,omitempty"`
	InFlight  int         `json:"inFlight"`
	Waiting   int         `json:"waiting"`
	Starts    int         `json:"starts"` // connections made so far
	Calls     int64       `json:"calls"`
	Failures  int64       `json:"failures"` // calls that ended in an error, tool errors included
	MeanMS    float64     `json:"meanMs,omitempty"`
	LastUsed  *time.Time  `json:"lastUsed,omitempty"`
	Stderr    string      `json:"stderr,omitempty"` // the end of what it wrote there
}

// acquireConn asks for a connection. The answer comes on reply, which has room for it; releaseConn gives back what was
// granted, or withdraws the question.
type acquireConn struct {
	late
	ticket uint64
	reply  chan<- grantedConn
	index  bool // only to read the list of tools: a connection that serves nothing else ends soon
}

// grantedConn answers acquireConn.
type grantedConn struct {
	conn *upstream.Conn
	err  error
}

// releaseConn ends what acquireConn with the same ticket began, in whatever state it is.
type releaseConn struct {
	late
	ticket uint64
}

// ofIncarnation is embedded in what a Client has sent itself: the one after a failure must not take it for its own.
type ofIncarnation struct {
	late
	gen uint64
}

func (m ofIncarnation) incarnation() uint64 { return m.gen }

// dialedConn is the end of one try to connect.
type dialedConn struct {
	ofIncarnation
	try  uint64 // of the actor when it began
	conn *upstream.Conn
	err  error
}

// connEvent tells that a connection was lost, or that its server has changed its tools.
type connEvent struct {
	ofIncarnation
	conn *upstream.Conn
	lost bool
}

// idleConns tells that nothing was asked of the connections since turn.
type idleConns struct {
	ofIncarnation
	turn uint64
}

// refreshTools asks for the list of tools to be read again; toolsRefreshed is its end.
type (
	refreshTools struct {
		ofIncarnation
	}
	toolsRefreshed struct {
		ofIncarnation
	}
)

// stopClient ends a Client for good. Its serverState's ended closes when nothing is left.
type stopClient struct{ late }

// restartClient ends the connections, also those in use or being made, and forgets failures: the next call connects anew.
type restartClient struct{ late }

// clientStopped is the end of stopClient's work.
type clientStopped struct{ late }
