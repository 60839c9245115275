package engine

import (
	"testing"
	"testing/quick"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestReleaseSchedule(t *testing.T) {
	t.Parallel()
	const sec = time.Second
	for _, tc := range []struct {
		name  string
		r     Release
		total int64
		now   time.Duration
		ready int64
		next  time.Duration
	}{
		{"no pieces: all at once", Release{}, 100, 0, 100, 0},
		{"before the first piece", Release{4, 0, 4 * sec}, 100, 0, 0, sec},
		{"long before", Release{4, 10 * sec, 14 * sec}, 100, 0, 0, 11 * sec},
		{"one piece", Release{4, 0, 4 * sec}, 100, sec, 25, 2 * sec},
		{"between pieces", Release{4, 0, 4 * sec}, 100, 2*sec + 1, 50, 3 * sec},
		{"the end", Release{4, 0, 4 * sec}, 100, 4 * sec, 100, 4 * sec},
		{"pieces of no byte are passed over", Release{10, 0, 10 * sec}, 2, sec, 0, 5 * sec},
		{"a schedule of no length", Release{3, sec, sec}, 9, 0, 0, sec},
		{"sizes beyond 32 bits", Release{4, 0, 1 << 40}, 1 << 50, 1 << 39, 1 << 49, 3 << 38},
	} {
		ready, next := tc.r.Ready(tc.total, tc.now)
		assert.Equal(t, tc.ready, ready, tc.name)
		assert.Equal(t, tc.next, next, tc.name)
	}
	law := func(total, n uint16, from, span uint32, now uint32) bool {
		r := Release{int64(n%200) + 1, time.Duration(from), time.Duration(from) + time.Duration(span)}
		ready, next := r.Ready(int64(total), time.Duration(now))
		if ready == int64(total) {
			return true
		}
		// At next one more byte is ready, and not before.
		after, _ := r.Ready(int64(total), next)
		before, _ := r.Ready(int64(total), next-1)
		return next > time.Duration(now) && after > ready && before == ready
	}
	require.NoError(t, quick.Check(law, &quick.Config{MaxCount: 5000}))
}
