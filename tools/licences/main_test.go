package main

import (
	"strings"
	"testing"
)

func TestNameOf(t *testing.T) {
	for text, want := range map[string]string{
		"Apache License\n Version 2.0, January 2004":                                                     "Apache-2.0",
		"Permission is hereby granted, free\nof charge, to any person":                                   "MIT",
		"Redistribution and use in source and binary forms, with":                                        "BSD-2-Clause",
		"Redistribution and use in source and binary forms … may be used to endorse or promote products": "BSD-3-Clause",
		"GNU AFFERO GENERAL PUBLIC LICENSE":                                                              "GPL",
		"All rights reserved.":                                                                           "",
	} {
		if got := nameOf(text); got != want {
			t.Errorf("%q is %q, want %q", text, got, want)
		}
	}
}

// Every dependency has a licence that is known, and none asks to publish what uses it.
func TestLicences(t *testing.T) {
	var out strings.Builder
	if err := run(t.Context(), &out); err != nil {
		t.Fatal(err)
	}
	if text := out.String(); strings.Contains(text, " GPL") || !strings.Contains(text, "golang.org/x/sys ") || !strings.Contains(text, "github.com/spf13/cobra ") {
		t.Errorf("%s", text)
	}
}
