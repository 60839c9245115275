package kvagent

import (
	"context"
	"time"
)

// TimerLateness measures how late this host wakes an agent. It returns the lateness of the
// given number of wake-ups, one per period, with the timer that agents use.
func TimerLateness(ctx context.Context, count int, every time.Duration) ([]time.Duration, error) {
	a, err := newAlarms()
	if err != nil {
		return nil, err
	}
	defer a.close()
	late := make([]time.Duration, 0, count)
	next := monotonic()
	for range count {
		next += int64(every)
		al := a.at(next)
		select {
		case <-ctx.Done():
			a.stop(al)
			return late, ctx.Err()
		case <-al.ch:
			now := monotonic()
			late = append(late, time.Duration(now-next))
			next = max(next, now) // a late one does not make the others late
		}
	}
	return late, nil
}
