package main

import "testing"

// What a flag takes and a room below refuses would be told by each call, to somebody who cannot mend it.
func TestBoundsAcceptedOutsideAreAcceptedInside(t *testing.T) {
	numbers := []string{"0", "1", "2", "64", "65", "32768", "32769", "1000000000"}
	sizes := []string{"0", "1", "255", "256", "1KiB", "1MiB", "48MiB", "64MiB", "67108865", "256MiB", "1024GiB"}
	times := []string{"0", "1ns", "100ms", "1s", "30s", "24h", "9e8"}
	for flag, values := range map[string][]string{
		"pool-size": append([]string{"auto"}, numbers...), "pool-max": numbers, "pool-refill": numbers, "pool-max-age": times,
		"queue": numbers, "queue-wait": times, "timeout": times, "max-timeout": times, "memory": sizes, "pids": numbers,
		"tmp": sizes, "output-max": sizes, "shim-tasks": numbers, "upstream-instances": numbers, "upstream-idle": times,
		"upstream-start": times, "upstream-timeout": times, "run-calls": numbers, "run-bytes": sizes, "run-parallel": numbers,
	} {
		cleanEnv(t)
		taken := 0
		for _, value := range values {
			if a, err := loaded(t, "--"+flag, value); err == nil {
				taken++
				refusedInside(t, a, "--"+flag+" "+value)
			}
		}
		if taken == 0 {
			t.Errorf("--%s took none of %q", flag, values)
		}
	}
	for _, empty := range poolEmpties {
		for _, rest := range [][]string{{"--pool-size=0"}, {"--queue=0"}, {"--pool-size=0", "--queue=0"}, {"--pool-size=auto", "--pool-max=1"}} {
			if a, err := loaded(t, append(rest, "--pool-empty", empty)...); err == nil {
				refusedInside(t, a, empty+" with "+rest[0])
			}
		}
	}
}

// refusedInside fails the test when a room below refuses the configuration of a.
func refusedInside(t *testing.T, a *app, flags string) {
	t.Helper()
	rts := runtimes{}
	c, err := a.systemConfig(rts)
	if err == nil {
		err = c.Validate()
	}
	if err != nil {
		t.Errorf("%s: %v", flags, err)
	}
	if err := rts.Close(); err != nil {
		t.Error(err)
	}
	hub, err := a.hubConfig(nil)
	if err == nil {
		err = hub.Validate()
	}
	if err != nil {
		t.Errorf("%s: %v", flags, err)
	}
}
