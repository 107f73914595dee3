// Package guest holds what runs inside a sandbox, the Python runner and its mcp package, and the Go side of the frame
// protocol that the two speak. It knows nothing of containers: the runner is given a stdin and a stdout.
//
// # Processes inside
//
// The runner's first process (pid 1 of the sandbox) forks at once. The parent keeps the frame channel (made non-dumpable,
// so that the child cannot reach its descriptors through /proc), drains the pipes behind the child's fd 1 and 2 into
// frames, passes the child's calls and the host's replies on, and reports how the child ended. The child imports what
// code commonly needs, goes once through its whole path, waits for the run, and has no descriptor of the frame channel.
// Both are there, waiting, before the sandbox is frozen, so that a thawed sandbox neither forks nor imports. Neither has a
// timer. When the host's end of the channel closes, both end.
//
// # How code runs
//
// As a script: a real module __main__ in the file /workspace/main.py, compiled from its own bytes. Where it and a script
// differ, this is decided:
//   - Top-level await is allowed. Code that has one runs inside one event loop as a whole; asyncio.run works there too,
//     on a loop of its own while the outer one stands still. Code that has none runs with no loop, like any script.
//   - The repr of a trailing expression is the run's value; a coroutine or future there is awaited first.
//   - stdin is at its end. stdout and stderr are line-buffered, so that a crash, a kill or a timeout loses no whole line,
//     and escape lone surrogates.
//   - The traceback of the exception that ended the code is in the done frame and not on stderr. The message of
//     sys.exit("text") is on stderr, as everywhere.
//   - The done frame comes when the code has ended, before threads that are not daemons are waited for and atexit
//     functions run: what a hanging thread holds up is the exit frame.
//   - multiprocessing forks by default. With the other start methods, code with a top-level await fails at once with
//     advice, since workers could not import its file.
//   - Processes that the code leaves behind hold nothing up; what they write after the code's end is not read.
//   - Coroutines that were never awaited are told in the notes, also those that a script would drop silently.
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
//	{"t":"exit","code":0}  or  {"t":"exit","signal":11}    last: the child has gone or does nothing more, and all its
//	                                                       output was sent before; no done came before it when the code
//	                                                       called os._exit, crashed or was killed
//	{"t":"exit","code":1,"reason":"…"}                     the runner ended the run, because the code wrote something
//	                                                       else than its calls to the runner's own channel
//
// error is {"type":"ValueError","message":"boom","traceback":"Traceback …"}, the last absent for SystemExit. A runner that
// cannot become ready ends with status ExitUnready and tells why on its stderr.
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
