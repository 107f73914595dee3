"""How the code ends, and what the process does at its end."""

import sys
import textwrap
import unittest

from .harness import Case, Runner, run

CODE = textwrap.dedent


class Exit(Case):
    def test_A06_A07_sys_exit_as_the_interpreter_does(self):
        for argument, code, stderr in (
            ("", 0, ""),
            ("None", 0, ""),
            ("0", 0, ""),
            ("False", 0, ""),
            ("True", 1, ""),
            ("3", 3, ""),
            ("256", 0, ""),
            ("-1", 255, ""),
            ("2**70", 255, ""),
            ("'need a file name'", 1, "need a file name\n"),
            ("''", 1, "\n"),
            ("(1, 2)", 1, "(1, 2)\n"),
            ("1.5", 1, "1.5\n"),
        ):
            with self.subTest(argument=argument):
                ended = run("import sys\nprint('early')\nsys.exit(%s)\nprint('late')" % argument)
                self.assertEqual((ended.code, ended.stdout, ended.stderr), (code, "early\n", stderr), ended)
                self.assertEqual(ended.error is None, code == 0)

    def test_sys_exit_elsewhere(self):
        self.assertEqual(run("import asyncio, sys\nawait asyncio.sleep(0)\nsys.exit(4)").code, 4)
        self.assertEqual(run("import asyncio, sys\nasync def f(): sys.exit(5)\nasyncio.run(f())").code, 5)
        ended = run("import threading, sys\nt = threading.Thread(target=sys.exit, args=(6,))\nt.start(); t.join()\nprint('on')")
        self.assertEqual((ended.code, ended.stdout), (0, "on\n"))
        ended = run("try:\n    import sys; sys.exit(7)\nfinally:\n    print('finally')")
        self.assertEqual((ended.code, ended.stdout), (7, "finally\n"))

    def test_A08_exit_and_quit_exist(self):
        self.assertEqual(run("exit()").code, 0)
        self.assertEqual(run("quit(3)").code, 3)
        self.assertEqual(run("exit('why')").stderr, "why\n")

    def test_A39_hard_exit(self):
        ended = run('import os\nprint("last words", flush=True)\nos._exit(0)')
        self.assertEqual((ended.code, ended.stdout, ended.done), (0, "last words\n", None))
        self.assertEqual(run("import os\nos._exit(77)").code, 77)

    def test_A35_signals(self):
        ended = run('print("x", flush=True)\nimport ctypes\nctypes.string_at(0)')
        self.assertEqual((ended.signal, ended.stdout, ended.code), (11, "x\n", None))
        for name in ("SIGTERM", "SIGKILL", "SIGABRT", "SIGALRM", "SIGHUP"):
            with self.subTest(name=name):
                import signal

                ended = run("import os, signal\nos.kill(os.getpid(), signal.%s)\nimport time; time.sleep(600)" % name)
                self.assertEqual(ended.signal, getattr(signal, name))

    def test_what_is_ignored_below_is_not_ignored_here(self):
        code = (
            "import signal\nprint([n for n in ('SIGHUP', 'SIGQUIT', 'SIGTERM', 'SIGUSR1') if signal.getsignal(getattr(signal, n))])\n"
            "print(signal.getsignal(signal.SIGINT) is signal.default_int_handler, signal.getsignal(signal.SIGPIPE) == signal.SIG_IGN)"
        )
        with Runner(limits="trap '' HUP INT QUIT TERM USR1") as runner:
            self.assertIsNotNone(runner.ready)
            runner.start(code)
            self.assertEqual(runner.finish().stdout, "[]\nTrue True\n")

    def test_sigint_is_a_keyboard_interrupt(self):
        self.bad("import os, signal\nos.kill(os.getpid(), signal.SIGINT)\nimport time; time.sleep(600)", "KeyboardInterrupt")

    def test_a_stopped_child_is_not_an_ended_one(self):
        ended = self.good(
            CODE("""\
                import os, signal, subprocess
                pid = os.getpid()
                subprocess.run(["sh", "-c", "kill -STOP %d; kill -CONT %d" % (pid, pid)])
                print("went on")
                """)
        )
        self.assertEqual(ended.stdout, "went on\n")


class Finish(Case):
    def test_A18_threads_are_waited_for(self):
        self.good(
            CODE("""\
                import threading, time
                def w():
                    for i in range(3):
                        time.sleep(0.05); print("t", i)
                threading.Thread(target=w).start()
                print("main done")
                """),
            "main done\nt 0\nt 1\nt 2\n",
        )

    def test_done_is_told_before_threads_end(self):
        with Runner() as runner:
            runner.start("import threading, time\nthreading.Thread(target=time.sleep, args=(600,)).start()\n1/0")
            ended = runner.finish(until=lambda f: f["t"] == "done")
            self.assertEqual(ended.error["type"], "ZeroDivisionError")

    def test_daemon_threads_are_not_waited_for(self):
        self.good("import threading, time\nthreading.Thread(target=time.sleep, args=(600,), daemon=True).start()\nprint(1)", "1\n")

    def test_atexit_and_destructors(self):
        self.good(
            CODE("""\
                import atexit, tempfile, weakref
                class A:
                    def __del__(self): print("del")
                a = A()
                b = A()
                weakref.finalize(b, print, "finalize")
                atexit.register(print, "atexit")
                print("main")
                """),
            "main\natexit\nfinalize\ndel\ndel\n",
        )

    def test_atexit_runs_after_an_error_too(self):
        ended = self.bad("import atexit\natexit.register(print, 'bye')\n1/0", "ZeroDivisionError")
        self.assertEqual(ended.stdout, "bye\n")

    def test_failing_atexit(self):
        ended = run("import atexit\natexit.register(lambda: 1/0)\nprint('x')")
        self.assertEqual((ended.code, ended.stdout), (0, "x\n"))
        self.assertIn("ZeroDivisionError", ended.stderr)

    def test_executor_threads_end(self):
        self.good(
            "from concurrent.futures import ThreadPoolExecutor\ne = ThreadPoolExecutor(2)\nf = e.submit(print, 'in')\nf.result()",
            "in\n",
        )


class Processes(Case):
    def test_A22_process_pool(self):
        self.good(
            CODE("""\
                from concurrent.futures import ProcessPoolExecutor
                def sq(n):
                    return n * n
                if __name__ == "__main__":
                    with ProcessPoolExecutor(2) as ex:
                        print(list(ex.map(sq, range(4))))
                """),
            "[0, 1, 4, 9]\n",
        )

    def test_A22_process_pool_with_top_level_await(self):
        self.good(
            CODE("""\
                import asyncio, multiprocessing
                from concurrent.futures import ProcessPoolExecutor
                def sq(n):
                    return n * n
                loop = asyncio.get_running_loop()
                with ProcessPoolExecutor(2) as ex:
                    print(await asyncio.gather(*(loop.run_in_executor(ex, sq, n) for n in range(4))))
                with multiprocessing.Pool(2) as pool:
                    print(pool.map(sq, range(4)))
                """),
            "[0, 1, 4, 9]\n[0, 1, 4, 9]\n",
        )

    def test_spawn_works_from_the_file(self):
        self.good(
            CODE("""\
                import multiprocessing
                def sq(n):
                    return n * n
                if __name__ == "__main__":
                    with multiprocessing.get_context("spawn").Pool(1) as pool:
                        print(pool.map(sq, range(4)))
                """),
            "[0, 1, 4, 9]\n",
        )

    def test_spawn_with_top_level_await_fails_at_once(self):
        for method in ("spawn", "forkserver"):
            with self.subTest(method=method):
                ended = self.bad(
                    CODE("""\
                        import asyncio, multiprocessing
                        await asyncio.sleep(0)
                        multiprocessing.get_context("%s").Pool(1)
                        """)
                    % method,
                    "RuntimeError",
                )
                self.assertIn("get_context('fork')", ended.error["message"])

    def test_start_method_can_still_be_set(self):
        self.good(
            CODE("""\
                import multiprocessing
                if __name__ == "__main__":
                    print(multiprocessing.get_start_method())
                """),
            "fork\n",
        )
        self.good("import multiprocessing\nmultiprocessing.set_start_method('spawn')\nprint(1)", "1\n")

    def test_A23_shared_memory_and_semaphores(self):
        self.good(
            CODE("""\
                import multiprocessing as mp
                from multiprocessing import shared_memory
                mp.Semaphore()
                s = shared_memory.SharedMemory(create=True, size=4096)
                s.close(); s.unlink()
                print("shm ok")
                """),
            "shm ok\n",
        )

    def test_a_forked_copy_that_runs_to_its_end(self):
        ended = self.good("import os\npid = os.fork()\nif pid: os.waitpid(pid, 0)\nprint('parent' if pid else 'child')")
        self.assertEqual(ended.stdout, "child\nparent\n")
        self.assertEqual(sum(f["t"] == "done" for f in ended.frames), 1)
        ended = self.good("import os\npid = os.fork()\nif not pid: 1/0\nprint(os.waitpid(pid, 0)[1] >> 8)", "1\n")
        self.assertIn("ZeroDivisionError", ended.stderr)
        self.assertNotIn("thawpool", ended.stderr)

    def test_what_is_left_behind_holds_nothing_up(self):
        ended = run("import subprocess\nprint('x')\nsubprocess.Popen(['sh', '-c', 'while :; do echo y || exit; done'])")
        self.assertEqual(ended.code, 0)
        self.assertTrue(ended.stdout.startswith("x\n"))

    def test_orphans_do_not_end_the_run(self):
        self.good(
            CODE("""\
                import subprocess
                subprocess.run(["sh", "-c", "(sh -c 'exit 3' &) ; exit 0"])
                print("still here")
                """),
            "still here\n",
        )


class Preload(unittest.TestCase):
    def test_preloaded_modules_are_there(self):
        ended = run("import sys\nprint('decimal' in sys.modules, 'THAWPOOL_PRELOAD' in __import__('os').environ)", env={"THAWPOOL_PRELOAD": "decimal, csv"})
        self.assertEqual(ended.stdout, "True False\n")

    def test_preloaded_multiprocessing(self):
        ended = run("import multiprocessing\nprint(multiprocessing.get_start_method())", env={"THAWPOOL_PRELOAD": "multiprocessing.pool"})
        self.assertEqual(ended.stdout, "fork\n")

    def test_a_missing_module_is_told_before_ready(self):
        with Runner(env={"THAWPOOL_PRELOAD": "json,no_such_module"}) as runner:
            self.assertIsNone(runner.ready)
            self.assertEqual(runner.process.wait(), 3)
            self.assertIn(b"cannot preload no_such_module: ModuleNotFoundError", runner.process.stderr.read())

    def test_few_descriptors(self):
        with Runner(limits="ulimit -n 32") as runner:
            runner.start("import os\nprint(mcp_fs.x.sync(), '31' in os.listdir('/proc/self/fd'))", servers=["fs"])
            runner.handlers["tools.call"] = lambda args: {"content": []}
            self.assertEqual(runner.finish().stdout, "None True\n")

    def test_ready_names_the_interpreter(self):
        with Runner() as runner:
            self.assertEqual(runner.ready, {"t": "ready", "v": 1, "python": "%d.%d.%d" % sys.version_info[:3]})
