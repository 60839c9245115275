package main

import (
	"testing"

	"github.com/stretchr/testify/assert"
)

func TestSudoCallerIsWhoCalledSudo(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name string
		env  map[string]string
		ok   bool
	}{
		{"a user", map[string]string{"SUDO_UID": "1000", "SUDO_GID": "1000"}, true},
		{"no sudo", nil, false},
		{"root by sudo", map[string]string{"SUDO_UID": "0", "SUDO_GID": "0"}, false},
		{"no group", map[string]string{"SUDO_UID": "1000"}, false},
		{"no number", map[string]string{"SUDO_UID": "me", "SUDO_GID": "1000"}, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			_, _, ok := sudoCaller(func(key string) string { return tt.env[key] })
			assert.Equal(t, tt.ok, ok)
		})
	}
}
