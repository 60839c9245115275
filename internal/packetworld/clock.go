package packetworld

import (
	"time"

	"golang.org/x/sys/unix"
)

// monotonic reads CLOCK_MONOTONIC in nanoseconds: all processes of the host read the same
// value, and it cannot be set back or forward.
func monotonic() int64 {
	var ts unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &ts); err != nil {
		return 0 // cannot happen for this clock (clock_gettime(2))
	}
	return ts.Nano()
}

// Stopwatch is the clock that decisions are timed with.
func Stopwatch() int64 { return monotonic() }

// clock maps real onto paper time of one trial.
type clock struct {
	epoch int64   // monotonic nanoseconds at paper time 0
	scale float64 // T
	read  func() int64
}

func (c clock) now() time.Duration { return c.paper(c.read()) }

func (c clock) paper(mono int64) time.Duration {
	return time.Duration(float64(mono-c.epoch) / c.scale)
}

// until is how long to wait, in real time, for a paper time to come.
func (c clock) until(at time.Duration) time.Duration {
	return time.Duration(float64(c.epoch) + float64(at)*c.scale - float64(c.read()))
}
