// Package actors runs calls: a Supervisor with one Pool actor for each profile and one Session actor for each call. The
// pool's decisions are package pool's, sandboxes are package runtime's, the frames are package runtime/guest's; what is
// here makes them work at the same time and fail one by one.
//
// Control goes by messages and nothing blocks in a Receive: what waits is done by pipe, beside the actor, and comes back as
// a message. A session's conversation with its sandbox is such work; it answers the call itself, so that no message lies
// between the last frame and the answer.
//
// What must outlive a failed actor is kept outside of it: each pool's sandboxes and waiting calls in a registry, each call
// in its own call value, which is answered exactly once by whoever comes first.
//
// The Hub answers what the code asks of the host. It has one Client actor for each upstream server in use, which makes the
// server's connections at the first call, hands them out and takes them back; the calls are made by those who hold them.
package actors
