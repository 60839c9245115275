package lab

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/netkvlab/netkvlab/internal/trials"
)

func TestNamesThatCannotBeALabs(t *testing.T) {
	t.Parallel()
	for _, good := range []string{"a", "0", "yes", "010", "a-b", strings.Repeat("a", 40)} {
		require.NoError(t, checkName(good))
	}
	for _, bad := range []string{"", "-a", "a-", "..", "a/b", "A", "é", "a_b", "a b", "a\n", strings.Repeat("a", 41), strings.Repeat("a", 1<<20)} {
		err := checkName(bad)
		var invalid trials.InvalidError
		require.ErrorAs(t, err, &invalid)
		assert.Less(t, len(err.Error()), 300)
	}
}
