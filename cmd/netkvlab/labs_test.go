package main

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/netkvlab/netkvlab/internal/host"
	"github.com/netkvlab/netkvlab/internal/lab"
)

func TestAutoSaysWhenACalibrationWouldHelp(t *testing.T) {
	t.Parallel()
	l := &labs{calibration: t.TempDir()}
	carries := func() (host.Capacity, string) {
		var said bytes.Buffer
		c := l.carries(lab.NewProgress(&said))
		return c, said.String()
	}
	c, said := carries()
	assert.False(t, c.Calibrated)
	assert.Contains(t, said, "`netkvlab doctor --calibrate`")
	assert.Equal(t, 1, strings.Count(said, "\n"), "one line: %s", said)

	measured, err := host.NewCalibration(host.Proc, time.Now())
	require.NoError(t, err)
	measured.Steps = host.Uncalibrated(1).Steps
	require.NoError(t, measured.Save(l.calibration))
	c, said = carries()
	assert.True(t, c.Calibrated)
	assert.Empty(t, said)
}
