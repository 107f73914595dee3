// Package observe keeps what operators look at: metrics, the calls in flight and the last ones, and what each server was
// asked. Everything in it is bounded, whatever is called and however long it runs: rings of fixed length, and label sets
// that only names from the operator's own configuration can enter. It knows nothing of HTTP, and it stands beside calls,
// not in them: what it does for one is a few additions under a lock that nobody holds for long.
package observe
