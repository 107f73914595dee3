// Package pool decides when to boot, hand out, retire and destroy sandboxes. It is a pure state machine: events and the
// time go in, actions come out. It starts no goroutine, reads no clock, takes no lock and knows nothing of actors,
// sandboxes or containers: a sandbox is a Slot to it, a call a Waiter. Whoever drives it (actors.Pool, Simulate, a test)
// owns it alone and carries every action out.
//
// A slot lives once: booting, then ready, then leased, then destroying, then gone. Every slot counts towards Config.Max
// until it is gone, so that what is asked of the host never exceeds it, whatever fails or lingers.
package pool
