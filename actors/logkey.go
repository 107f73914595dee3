package actors

// The keys of log lines.
const (
	keyRequest = "request"
	keyTrace   = "trace"
	keyProfile = "profile"
	keySandbox = "sandbox"
	keyEvent   = "event" // boot, lease, thaw, done, destroy and the like
	keyStatus  = "status"
	keyPool    = "pool" // hit, wait or cold
	keyQueueMS = "queue_ms"
	keyThawMS  = "thaw_ms"
	keyRunMS   = "run_ms"
	keyTookMS  = "took_ms"
	keyCPUMS   = "cpu_ms"
	keyPeak    = "peak_bytes"
	keyCalls   = "calls"
	keyReason  = "reason"
)
