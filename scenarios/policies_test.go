package scenarios

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestEveryPolicyIsAcceptedByName(t *testing.T) {
	t.Parallel()
	require.Len(t, PolicyNames(), 14)
	for _, p := range policies {
		assert.NotEmpty(t, p.rule, p.name)
	}
	text := "policies: [" + strings.Join(PolicyNames(), ", ") + "]"
	s, err := Parse("s.yaml", []byte(strings.Replace(text, "cla*", "{name: cla*, cacheWeight: 4, loadWeight: 0.5}", 1)))
	require.NoError(t, err)
	requireRoundTrip(t, s)
	for i, name := range PolicyNames() {
		if name != "cla*" {
			assert.Equal(t, NewPolicy(name), s.Policies[i])
		}
	}
}

func TestABareNameAndAMappingAreTheSame(t *testing.T) {
	t.Parallel()
	s, err := Parse("s.yaml", []byte("policies:\n  - cla\n  - {name: cla, label: cla-cache, cacheWeight: 4}\n  - name: rr\n"))
	require.NoError(t, err)
	assert.Equal(t, []Policy{
		{Name: "cla", Label: "cla", CacheWeight: 1, LoadWeight: 1},
		{Name: "cla", Label: "cla-cache", CacheWeight: 4, LoadWeight: 1},
		{Name: "rr", Label: "rr"},
	}, s.Policies)
	requireRoundTrip(t, s)
}
