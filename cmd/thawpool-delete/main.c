/*
 * thawpool-delete is the runtime binary of tasks that joined a running shim. containerd executes it with "delete" at
 * every task delete, also the ordinary ones after which nothing is left to do, because deleting closes the task's own
 * connection (core/runtime/v2, cleanupAfterDeadShim). So the ordinary case costs one small static program: libcontainer
 * keeps its state in the bundle, the working directory here, and a state that is still there means that the shim has
 * died before it could clean up. Only then the real shim takes over, with the same arguments.
 */
#include <stdio.h>
#include <string.h>
#include <unistd.h>

int main(int argc, char **argv) {
	static char path[4096];
	const char *id = NULL;
	for (int i = 1; i + 1 < argc; i++)
		if (strcmp(argv[i], "-id") == 0)
			id = argv[i + 1];
	if (id == NULL) {
		fprintf(stderr, "thawpool-delete: no -id\n");
		return 2;
	}
	int n = snprintf(path, sizeof path, "lc/%s/state.json", id);
	if (n < 0 || (size_t)n >= sizeof path)
		return 2;
	if (access(path, F_OK) != 0)
		return 0; /* an empty DeleteResponse: the shim has reported the exit already */
	ssize_t len = readlink("/proc/self/exe", path, sizeof path - 64);
	if (len < 0) {
		perror("thawpool-delete");
		return 1;
	}
	path[len] = '\0';
	char *slash = strrchr(path, '/');
	strcpy(slash ? slash + 1 : path, "containerd-shim-thawpool-v1");
	execv(path, argv);
	perror(path);
	return 1;
}
