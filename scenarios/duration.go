package scenarios

import (
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"time"
)

const durationExample = "1.5s, 100ms or 8us"

// durationPart is one number and unit of "1h2m3.5s".
var durationPart = regexp.MustCompile(`^([0-9]+)(?:\.([0-9]+))?(ns|us|µs|μs|ms|s|m|h)`)

var durationUnits = map[string]int64{
	"ns": 1, "us": int64(time.Microsecond), "µs": int64(time.Microsecond), "μs": int64(time.Microsecond),
	"ms": int64(time.Millisecond), "s": int64(time.Second), "m": int64(time.Minute), "h": int64(time.Hour),
}

// parseDuration reads Go's syntax (1h2m, 1.5s, 100ms, 8us), exactly and without
// a sign. A bare 0 needs a unit as every other number does.
func parseDuration(text string) (time.Duration, error) {
	if _, _, err := splitQuantity(text, "a time", durationExample); err != nil {
		return 0, err
	}
	total := int64(0)
	for rest := text; rest != ""; {
		m := durationPart.FindStringSubmatch(rest)
		if m == nil {
			return 0, fmt.Errorf("not a time; write it like %s (units: ns, us, ms, s, m, h)", durationExample)
		}
		n, err := decimal{m[1], m[2]}.times(durationUnits[m[3]])
		switch {
		case errors.Is(err, errNotWhole):
			return 0, fmt.Errorf("a time must be a whole number of nanoseconds")
		case err != nil || total+n < total:
			return 0, fmt.Errorf("a time: %w", errTooLarge)
		}
		total += n
		rest = rest[len(m[0]):]
	}
	return time.Duration(total), nil
}

// formatDuration is Duration.String in ASCII without empty tails: 2m, 8us.
func formatDuration(d time.Duration) string {
	text := strings.ReplaceAll(d.String(), "µ", "u")
	if strings.HasSuffix(text, "m0s") {
		text = strings.TrimSuffix(text, "0s")
	}
	if strings.HasSuffix(text, "h0m") {
		text = strings.TrimSuffix(text, "0m")
	}
	return text
}

// parsePerSecond reads an arrival rate: 4/s, 0.5/s.
func parsePerSecond(text string) (float64, error) {
	num, name, err := splitQuantity(text, "an arrival rate", "4/s")
	if err != nil {
		return 0, err
	}
	if name != "/s" {
		return 0, fmt.Errorf("unknown unit %q of an arrival rate; write it like 4/s", name)
	}
	n, err := strconv.ParseFloat(strings.TrimSuffix(num.whole+"."+num.frac, "."), 64)
	if err != nil {
		return 0, fmt.Errorf("an arrival rate: %w", err)
	}
	return n, nil
}

// formatFloat writes a number so that it reads back as the same one, without exponent.
func formatFloat(v float64) string { return strconv.FormatFloat(v, 'f', -1, 64) }
