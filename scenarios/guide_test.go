package scenarios

import (
	"os"
	"regexp"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestScenariosOfTheGuideAreValid(t *testing.T) {
	guide, err := os.ReadFile("../docs/guide.md")
	require.NoError(t, err)
	blocks := regexp.MustCompile("(?s)```yaml\n(.*?)```").FindAllSubmatch(guide, -1)
	require.NotEmpty(t, blocks, "the guide shows no scenario")
	for _, b := range blocks {
		_, err := Parse("guide.yaml", b[1])
		assert.NoError(t, err, string(b[1]))
	}
}
