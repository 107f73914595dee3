/*
 * thawpool-delete is the runtime binary of tasks that joined a running shim. containerd executes it with "delete" at
 * every task delete, also the ordinary ones after which nothing is left to do, because deleting closes the task's own
 * connection (core/runtime/v2, cleanupAfterDeadShim). So the ordinary case costs one small static program: libcontainer
 * keeps its state in the bundle, the working directory here, and a state that is still there means that the shim has
 * died before it could clean up. Only then the real shim takes over, with the same arguments; so it does for "-info",
 * which containerd asks once in its life.
 */
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static char path[4096];

/* Becomes the real shim, which stands beside this program. */
static int hand_over(char **argv) {
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

int main(int argc, char **argv) {
	const char *id = NULL;
	for (int i = 1; i < argc; i++) {
		if (strcmp(argv[i], "-info") == 0)
			return hand_over(argv);
		if (strcmp(argv[i], "-id") == 0 && i + 1 < argc)
			id = argv[i + 1];
	}
	if (id == NULL) {
		fprintf(stderr, "thawpool-delete: no -id\n");
		return 2;
	}
	int n = snprintf(path, sizeof path, "lc/%s/state.json", id);
	if (n < 0 || (size_t)n >= sizeof path)
		return 2;
	if (access(path, F_OK) != 0)
		return 0; /* an empty DeleteResponse: the shim has reported the exit already */
	return hand_over(argv);
}
