package config

import (
	"encoding/json"
	"strconv"
	"strings"
	"time"
)

// The names that timeouts go by in the files of MCP clients.
var (
	startKeys = []string{"startTimeout", "startupTimeout", "start_timeout", "startup_timeout_sec", "startup_timeout_ms",
		"initTimeout", "connectTimeout", "connect_timeout"}
	callKeys = []string{"callTimeout", "call_timeout", "toolTimeout", "tool_timeout_sec", "requestTimeout", "timeout"}
)

// maxTimeout bounds every timeout; longer ones are typing errors.
const maxTimeout = 24 * time.Hour

// duration reads the first of keys that is there. A string is a Go duration ("90s") or a number. A number without a unit
// in its name is in unit; where unit is zero, numbers below 1000 are seconds and others milliseconds, since clients
// differ and neither a 15-minute start nor a half-second call is ever meant.
func (b *builder) duration(keys []string, unit time.Duration) time.Duration {
	for _, k := range keys {
		v, ok := b.entry.fields[k]
		if !ok || v == nil {
			continue
		}
		d, ok := parseDuration(v, unitOf(k, unit))
		if !ok || d <= 0 || d > maxTimeout {
			b.warn("field %q is no time between 0 and 24h, such as \"30s\", and is ignored", k)
			return 0
		}
		return d
	}
	return 0
}

// unitOf goes by the field's name first: ours and those that say it are fixed.
func unitOf(key string, unit time.Duration) time.Duration {
	switch {
	case strings.HasSuffix(key, "_sec"):
		return time.Second
	case strings.HasSuffix(key, "_ms"):
		return time.Millisecond
	case key == "timeout":
		return unit
	}
	return 0
}

func parseDuration(v any, unit time.Duration) (time.Duration, bool) {
	var number float64
	var err error
	switch v := v.(type) {
	case json.Number:
		number, err = v.Float64()
	case string:
		if d, err := time.ParseDuration(v); err == nil {
			return d, true
		}
		number, err = strconv.ParseFloat(v, 64)
	default:
		return 0, false
	}
	if err != nil || !(number > 0 && number <= maxTimeout.Seconds()*1000) {
		return 0, false
	}
	if unit == 0 {
		unit = time.Second
		if number >= 1000 {
			unit = time.Millisecond
		}
	}
	return time.Duration(number * float64(unit)), true
}
