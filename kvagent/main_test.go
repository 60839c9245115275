package kvagent

import (
	"bytes"
	"context"
	"flag"
	"os"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

func TestMainChecksItsCommandLine(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name string
		args []string
		want error
	}{
		{"nothing", nil, ErrUsage},
		{"no node", []string{"--socket", "/tmp/x"}, ErrUsage},
		{"unknown flag", []string{"--nonsense"}, ErrUsage},
		{"a word too many", []string{"--socket", "x", "--node", "a", "b"}, ErrUsage},
		{"a leash that is no descriptor", []string{"--socket", "x", "--node", "a", "--leash-fd", "2"}, ErrUsage},
		{"help", []string{"--help"}, flag.ErrHelp},
	} {
		var out bytes.Buffer
		assert.ErrorIs(t, Main(t.Context(), tc.args, &out), tc.want, tc.name)
	}
}

func TestAgentEndsWithItsLeash(t *testing.T) {
	t.Parallel()
	read, write, err := os.Pipe()
	require.NoError(t, err)
	path := socketPath(t)
	ended := make(chan error, 1)
	dup, err := unix.Dup(int(read.Fd())) // Main owns the one it is given
	require.NoError(t, err)
	require.NoError(t, read.Close())
	fd := strconv.Itoa(dup)
	go func() {
		ended <- Main(context.WithoutCancel(t.Context()), []string{"--socket", path, "--node", "a", "--leash-fd", fd}, os.Stderr)
	}()
	c, err := Dial(t.Context(), path)
	require.NoError(t, err)
	require.NoError(t, c.Close())
	require.NoError(t, write.Close())
	select {
	case err := <-ended:
		require.NoError(t, err)
	case <-time.After(testTimeout):
		require.Fail(t, "the agent outlived its leash")
	}
}
