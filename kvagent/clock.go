package kvagent

import (
	"math"
	"time"
)

// paperClock converts between the host's monotonic time and the trial's paper
// time: paper = (monotonic - epoch) / scale.
type paperClock struct {
	epoch int64   // monotonic ns
	scale float64 // T: real seconds per paper second, > 0
}

// now is the paper time of this instant, at least 0: nothing happens before the trial.
func (c paperClock) now() time.Duration { return c.paper(monotonic()) }

func (c paperClock) paper(mono int64) time.Duration {
	d := mono - c.epoch
	if d <= 0 {
		return 0
	}
	return time.Duration(math.Round(float64(d) / c.scale))
}

// real is the monotonic time at which paper time p is reached: never earlier,
// so that a timer set to it finds p due.
func (c paperClock) real(p time.Duration) int64 {
	d := float64(p) * c.scale
	if d > math.MaxInt64/4 {
		return math.MaxInt64 / 2
	}
	return c.epoch + int64(math.Ceil(d))
}

// realSpan is how long a paper duration takes.
func (c paperClock) realSpan(p time.Duration) time.Duration {
	return time.Duration(math.Round(float64(p) * c.scale))
}
