// Package guest holds what runs inside a sandbox, the Python runner and its mcp package, and the Go side of the frame
// protocol that the two speak. It knows nothing of containers: the runner is given a stdin and a stdout.
//
// # Processes inside
//
// The runner's first process (pid 1 of the sandbox) imports what code commonly needs and forks. The parent keeps the
// frame channel (made non-dumpable, so that the child cannot reach its descriptors through /proc), drains the pipes
// behind the child's fd 1 and 2 into frames, passes the child's calls and the host's replies on, and reports how the
// child ended. The child runs the user's code and has no descriptor of the frame channel. Both are there, waiting,
// before the sandbox is frozen, so that a thawed sandbox neither forks nor imports.
//
// # Frames
//
// One JSON object a line, UTF-8, at most FrameMax bytes with its newline. "t" is the type. From the sandbox:
//
//	{"t":"ready","v":1,"python":"3.14.6"}                  once, first: everything is imported, waiting for a run
//	{"t":"out","fd":1,"d":"text"}                          output of fd 1 or 2; "b" in place of "d" carries base64
//	                                                       where the bytes are not UTF-8; at most 64 KiB of payload
//	{"t":"call","id":1,"verb":"tools.call","args":{…}}     asks the host; ids are the child's own, never reused
//	{"t":"cancel","id":1}                                  the child no longer waits for this call
//	{"t":"done","value":"repr","error":{…},"notes":["…"]}  the code has ended; value and error may be null or absent
//	{"t":"exit","code":0}  or  {"t":"exit","signal":11}    last: the child has gone and all its output was sent before
//
// error is {"type":"ValueError","message":"boom","traceback":"Traceback …"}.
//
// To the sandbox:
//
//	{"t":"run","id":"…","code":"…","value_max":65536,"servers":[{"name":"fs","alias":"fs","description":"…"}],
//	 "saved":["name",…]}                                    once
//	{"t":"reply","id":1,"value":…}                          answers a call
//	{"t":"reply","id":1,"error":{"type":"MCPError","message":"…"}}
//
// The sandbox is hostile: the host checks every frame's type, size, id and rate, and believes none of them. What a
// forged frame can do is spoil its own run.
package guest
