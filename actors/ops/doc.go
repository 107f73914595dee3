// Package ops is the operators' face of one process: health, metrics over HTTP, a live page with a few actions, and the
// socket through which `thawpool status` finds the process. It reads what others keep, at its own pace: nothing of a call
// ever waits for it, and a slow reader only loses what it did not read.
package ops
