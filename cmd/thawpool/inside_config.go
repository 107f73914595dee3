package main

import (
	"path/filepath"
	"time"

	"github.com/thawpool/thawpool/actors/ops"
)

// groupOps are the options of what operators see.
const groupOps group = "Operators"

// OpsConfig says what operators see of a process. All of it is off by default.
type OpsConfig struct {
	Listen    string // host:port or unix:PATH; "" serves nothing
	TokenFile string
	CertFile  string
	KeyFile   string
	Insecure  bool
	SelfCheck time.Duration // 0 means never
	PageCode  bool

	Audit         string // file; "" writes none
	AuditCode     bool
	AuditRequired bool
}

func opsOptions(c *OpsConfig) []option {
	return []option{
		{name: "listen", group: groupOps, value: textValue[string]{p: &c.Listen, kind: "address"}, show: "nowhere",
			help: "serve metrics, health and a live page at host:port or unix:PATH"},
		{name: "listen-token-file", group: groupOps, value: textValue[string]{p: &c.TokenFile, kind: "file"}, show: "none",
			help: "ask for the token in this file; a browser takes it as the password"},
		{name: "listen-cert", group: groupOps, value: textValue[string]{p: &c.CertFile, kind: "file"}, show: "none", help: "TLS certificate, PEM"},
		{name: "listen-key", group: groupOps, value: textValue[string]{p: &c.KeyFile, kind: "file"}, show: "none", help: "its key"},
		{name: "listen-insecure", group: groupOps, value: boolValue{&c.Insecure},
			help: "allow an address that other machines reach without token or TLS"},
		{name: "self-check", group: groupOps, value: (*durationValue)(&c.SelfCheck),
			help: "with listen: run print(1) through the whole path this often while no call runs; 0 never does"},
		{name: "page-code", group: groupOps, value: boolValue{&c.PageCode}, help: "show the code of calls on the live page"},
		{name: "audit", group: groupOps, value: textValue[string]{p: &c.Audit, kind: "file"}, show: "none",
			help: "append one JSON line for each call to this file, before its answer leaves"},
		{name: "audit-code", group: groupOps, value: boolValue{&c.AuditCode}, help: "write the code itself and not only its hash"},
		{name: "audit-required", group: groupOps, value: boolValue{&c.AuditRequired}, help: "refuse calls while the audit log cannot be written"},
	}
}

// validate reports what cannot be used. Files are read when they are needed.
func (c *OpsConfig) validate() (errs []error) {
	check := func(field string, err error) {
		if err != nil {
			errs = append(errs, &FieldError{Field: field, Err: err})
		}
	}
	if c.Listen != "" {
		l := ops.Listen{Address: c.Listen, CertFile: c.CertFile, KeyFile: c.KeyFile, Insecure: c.Insecure}
		if c.TokenFile != "" {
			l.Token = "in a file"
		}
		check("listen", l.Validate())
	}
	for name, path := range map[string]*string{"audit": &c.Audit} {
		if *path == "" {
			continue
		}
		abs, err := filepath.Abs(*path)
		check(name, err)
		*path = abs
	}
	return errs
}

// listen is where to serve, with the token read.
func (c *OpsConfig) listen() (ops.Listen, error) {
	l := ops.Listen{Address: c.Listen, CertFile: c.CertFile, KeyFile: c.KeyFile, Insecure: c.Insecure}
	if c.TokenFile == "" {
		return l, nil
	}
	var err error
	if l.Token, err = ops.ReadToken(c.TokenFile); err != nil {
		return l, &FieldError{Field: "listen-token-file", Err: err}
	}
	return l, nil
}
