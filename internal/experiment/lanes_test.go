package experiment

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestNoTrialIsHandedOutOnceALaneHasFailed(t *testing.T) {
	t.Parallel()
	q := &queue{work: []Work{{Name: "a"}, {Name: "b"}, {Name: "c"}}}
	n, w, ok := q.next()
	require.True(t, ok)
	assert.Zero(t, n)
	assert.Equal(t, "a", w.Name)
	n, _, ok = q.next()
	assert.True(t, ok)
	assert.Equal(t, 1, n)
	q.stop()
	_, _, ok = q.next()
	assert.False(t, ok)
}

// shown remembers the progress that was displayed.
type shown struct{ said []string }

func (s *shown) Phase(format string, args ...any) {
	s.said = append(s.said, fmt.Sprintf(format, args...))
}
func (s *shown) Note(format string, args ...any) { s.Phase(format, args...) }
func (s *shown) Step(phase string, done, total int, _ time.Duration) {
	s.said = append(s.said, phase, strings.Repeat("|", done)+strings.Repeat(".", total-done))
}

func TestProgressSideBySideIsOfAllTrials(t *testing.T) {
	t.Parallel()
	var s shown
	p := newTrialProgress(&s, 2, 2)
	p.begin("a", "a")
	p.begin("b", "b")
	p.step("a", "a", 1, 3)
	p.step("b", "b", 2, 3)
	p.begin("a", "a, attempt 2") // the requests of the spoiled attempt no longer count
	p.step("a", "a, attempt 2", 3, 3)
	assert.Equal(t, []string{
		"a (trial 1 of 2)", "b (trial 2 of 2)", "2 trials in 2 fabrics", "|.....", "2 trials in 2 fabrics", "|||...",
		"a, attempt 2 (trial 1 of 2)", "2 trials in 2 fabrics", "|||||.",
	}, s.said)
	s.said = nil
	p = newTrialProgress(&s, 2, 1)
	p.begin("a", "a")
	p.step("a", "a", 2, 3)
	assert.Equal(t, []string{"a (trial 1 of 2)", "a", "||."}, s.said)
}
