package actors

// What the supervisor is told.
type (
	// runCall: a new call wants to run.
	runCall struct {
		late
		call *call
	}
	// cancelCall: the call is to end now.
	cancelCall struct {
		late
		call  *call
		cause error
	}
	// toPool: the message is for the pool of that profile.
	toPool struct {
		late
		profile string
		message any
	}
)
